"""A replica whose ensemble is restored to another state after its first answer."""

import http.server
import json
import threading

HISTORY = "00000000000000aa"
REFUSAL = json.dumps({"status": 409, "code": "HistoryChanged", "detail": "of another history"})


class Other:
    """Listens inside of `with`. `shown`: history and zxid of each request after the first."""

    def __init__(self):
        self.shown = []
        self.first = True
        other = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                first, other.first = other.first, False  # Before the client's next request.
                if not first:
                    other.shown.append((self.headers["Zk-History"], self.headers["Zk-Min-Zxid"]))
                self.answer(*((200, "1") if first else (409, REFUSAL)))

            do_PUT = do_POST = do_GET

            def answer(self, status, text):
                self.send_response(status)
                self.send_header("Zk-Zxid", "0x5")
                self.send_header("Zk-History", HISTORY)
                self.send_header("ETag", '"d1.0"')
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error):
        self.server.shutdown()
        self.server.server_close()
