// A client that sends bytes unchanged, one connection for each request.

import { connect } from 'node:net';

import { parseHead } from './check.js';

const TIMEOUT_MS = 60000;
const CONTINUE = 100;

/** The bytes of a request: { method, target, headers, body }; `headers` are lines. */
export function bytesOf({ method, target, headers = [], body }) {
  const lines = [`${method} ${target} HTTP/1.1`, ...headers];
  if (!headers.some((line) => /^host:/i.test(line))) {
    lines.push('Host: localhost');
  }
  if (body !== undefined) {
    lines.push(`Content-Length: ${body.length}`);
  }
  if (!headers.some((line) => /^connection:/i.test(line))) {
    lines.push('Connection: close');
  }
  return Buffer.concat([
    Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'),
    body ?? Buffer.alloc(0),
  ]);
}

function unchunk(bytes) {
  const parts = [];
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf('\r\n', at);
    const size = end < 0 ? 0 : parseInt(bytes.subarray(at, end).toString(), 16);
    if (!size) {
      break;
    }
    parts.push(bytes.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
  return Buffer.concat(parts);
}

/** The answer in the received bytes, or undefined if incomplete; of a stream the head is enough. */
function readAnswer(bytes, ended, method) {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) {
    return undefined;
  }
  const { status, headers } = parseHead(bytes.subarray(0, end).toString('latin1'));
  const rest = bytes.subarray(end + 4);
  if (status === CONTINUE) {
    return readAnswer(rest, ended, method);
  }
  const chunked = headers['transfer-encoding'] === 'chunked';
  const stream = chunked || status === 101;
  const length = method === 'HEAD' || stream ? 0 : Number(headers['content-length'] ?? 0);
  if (!ended && rest.length < length) {
    return undefined;
  }
  const answer = chunked ? unchunk(rest) : rest.subarray(0, length);
  return {
    status,
    answerHeaders: headers,
    head: bytes.subarray(0, end + 4),
    answer: status === 101 ? Buffer.alloc(0) : answer,
    stream,
  };
}

/** The answer to these bytes; undefined when the server closes without one. */
export function sendBytes(port, bytes, method = 'GET', localAddress = '127.0.0.1') {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    let seen = Buffer.alloc(0);
    const finish = (answer) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(TIMEOUT_MS, () => {
      socket.destroy();
      reject(new Error('no answer in time'));
    });
    socket.on('data', (piece) => {
      seen = Buffer.concat([seen, piece]);
      const answer = readAnswer(seen, false, method);
      if (answer) {
        finish(answer);
      }
    });
    socket.on('end', () => finish(readAnswer(seen, true, method)));
    socket.on('error', (error) =>
      seen.length > 0 ? finish(readAnswer(seen, true, method)) : reject(error),
    );
    socket.write(bytes);
  });
}

export function ask(port, request, localAddress) {
  return sendBytes(port, bytesOf(request), request.method, localAddress);
}

/** A connection that takes a place, if one is free, and sends nothing. */
export function hold(port, localAddress) {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress }, () => resolve(socket));
    socket.on('data', () => {}); // A refusal may arrive.
    socket.on('error', reject);
  });
}
