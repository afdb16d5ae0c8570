"""What tidy.py enforces, as data: the include table of the architecture, banned calls, limits."""

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100

SKIPPED_FOLDERS = {".git", "build", "node_modules", "zabra-data", "dist", "__pycache__", "corpus"}
CODE_SUFFIXES = (".c", ".h", ".S", ".py", ".js", ".mjs", ".css", ".sh", ".cmake", "CMakeLists.txt",
                 ".yaml", ".yml")
SOURCE_SUFFIXES = (".c", ".h", ".S", ".py", ".js", ".mjs", ".sh")

# Joined, so that this file does not find itself.
MARKS = ["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]

# Folders of the include table. A file belongs to the longest that fits.
ROOMS = ["audit", "backup", "config", "json", "op", "prepare", "process", "read", "replica", "sessions", "state",
         "transfer", "watch"]
FOLDERS = ["base", "tls", "zab", "zab/tcp", "storage", "server", *("server/" + room for room in ROOMS),
           "http", "ws", "zk", "cli", "web", "openapi", "tests"]

# Folders that have a README.md even without a source file of their own.
FOLDERS_WITH_README = [*FOLDERS, "docs"]

ASSERT_FOLDERS = ["zab", "storage", "server/state"]

FRONT_DOOR = r"server/\w+/(gate|watch_listing|reload|backups|op|ops|change|op_json\w*|view|export|import|auth|acl|acl_list|trace|subscribe|watch|window|metrics)\.h"

# Beyond its own headers, what each folder may include (of the project). tests/ may include all.
MAY_INCLUDE = {
    "base": [],
    "tls": [r"base/.*"],
    "zab": [r"base/.*"],
    "zab/tcp": [r"base/.*", r"zab/[^/]*"],
    "storage": [r"base/.*"],
    "server/state": [r"base/.*"],
    "server/audit": [r"base/.*", r"storage/store\.h", r"zab/config\.h", r"server/(op|state)/.*"],
    "server/backup": [r"base/.*", r"zab/.*", r"storage/store\.h", r"server/(config|read|state)/.*"],
    "server/config": [r"base/.*", r"zab/.*"],
    "server/json": [r"base/.*", r"server/(op|state|watch)/.*"],
    "server/op": [r"base/.*", r"server/state/.*"],
    "server/prepare": [r"base/.*", r"zab/config\.h", r"server/(config|op|state)/.*"],
    "server/process": [r"base/.*", r"zab/.*", r"storage/.*",
                       r"server/(audit|backup|config|op|prepare|read|replica|sessions|state|watch)/.*"],
    "server/read": [r"base/.*", r"server/(op|sessions|state)/.*"],
    "server/replica": [r"base/.*", r"zab/.*",
                       r"server/(config|op|prepare|read|sessions|state|watch)/.*"],
    "server/sessions": [r"base/.*", r"zab/.*", r"server/state/.*"],
    "server/transfer": [r"base/.*", r"server/(json|op|read|state)/.*"],
    "server/watch": [r"base/.*", r"server/(op|read|state)/.*"],
    "http": [r"base/.*", r"tls/.*", FRONT_DOOR, r"web/.*", r"openapi/documents\.h"],
    "openapi": [r"base/.*"],
    "web": [r"base/.*"],
    "ws": [r"base/.*", r"tls/.*", FRONT_DOOR],
    "zk": [r"base/.*", r"tls/.*", FRONT_DOOR],
    "cli": [r"base/.*", r"tls/(issue|inspect|chain|dial|socket)\w*\.h", r"server/(?!state/).*", r"http/http\.h", r"ws/ws\.h", r"zk/(zk|wire)\.h", r"storage/.*", r"web/assets\.h", r"zab/(level|tcp/frame)\.h"],
}

# Circles of calls between files that are left. A circle may become smaller or go, and then its line
# here; a new one, or a file that joins one, is refused.
CIRCLES = [
    ["zab/broadcast.c", "zab/digest.c", "zab/election.c", "zab/follow.c", "zab/follow_snap.c",
     "zab/follow_sync.c", "zab/lead.c", "zab/lead_snap.c", "zab/lead_sync.c", "zab/proof.c"],
]

# Functions and tables of a higher room that a lower one still calls or names.
CALLS_LEFT = set()

# Functions without a caller in the product: only tests use them.
FOR_TESTS = {
    "expiry_count", "main", "prep_pending", "zab_change", "zab_fault_text", "zab_msg_name",
    "zab_pending", "zab_pending_bytes", "tcp_locks_out",
}

# Functions of the C library that a file of the product defines in its place.
INTERPOSED = {"recv", "send", "sendmsg", "shutdown", "close"}  # http/inlet.c, tls/calls.c, for the
# libraries that serve connections.

SOCKET_FILES = [r"base/loop\w*\.[ch]", r"tls/(calls|socket|system|wire|read|write)\.[ch]", r"zab/tcp/.*", r"http/.*", r"ws/.*", r"zk/.*", r"cli/.*", r"tests/.*"]

# System headers that only some files may include; others are free.
LIBRARY_HEADERS = [
    (r"microhttpd\.h", [r"http/.*", r"cli/cmd_version\.c"]),
    (r"libwebsockets\.h", [r"ws/.*", r"cli/.*", r"tests/.*"]),
    (r"curl/.*", [r"cli/.*", r"tests/.*"]),
    (r"jansson\.h", [r"server/json/op_json\w*\.c", r"cli/.*", r"tests/.*"]),
    (r"openssl/.*", [r"base/crypto\.c", r"cli/cmd_version\.c", r"tls/.*", r"zab/tcp/.*", r"tests/.*"]),
    (r"cmocka\.h", [r"tests/.*"]),
    # Both logs may go to a socket of the journal; a service manager receives datagrams.
    (r"sys/socket\.h|sys/un\.h|netinet/tcp\.h",
     SOCKET_FILES + [r"base/(log|sd_notify)\.c", r"server/audit/audit_file\.c"]),
    # Addresses in the configuration and in ACLs are text that must be parsed; no socket is opened.
    (r"netinet/in\.h|arpa/inet\.h|netdb\.h",
     SOCKET_FILES + [r"server/config/.*", r"base/address\.c", r"tls/(issue|inspect)\.c"]),
    (r"sys/epoll\.h", [r"base/loop\.c", r"tests/.*"]),
    (r"sys/random\.h", [r"base/os_rng\.c"]),
    # In storage/ only what the log thread shares with others.
    (r"pthread\.h", [r"base/.*", r"tls/.*", r"server/(audit|process|read|sessions|watch)/.*",
                     r"storage/(wal|store|\w*thread)\w*\.[ch]", r"http/.*", r"cli/libcurl\.c", r"tests/.*"]),
]

# Names, the files that may call them (regular expressions), why others may not. Members are free.
CALLS = [
    (r"strcpy|strcat|sprintf|vsprintf|gets|stpcpy", [], "has no bound"),
    (r"strtok|localtime|gmtime|asctime|ctime", [], "keeps state in a static place"),
    (r"localtime_r", [], "depends on the machine's time zone"),
    (r"gmtime_r", [r"base/log\.c", r"http/send\.c", r"cli/(out|backup_files)\.c", r"server/audit/audit_line\.c"],
     "only the logs, Date and the command line write a date"),
    (r"atoi|atol|atoll|atof|strtol", [], "hides errors"),
    (r"alloca|__builtin_alloca", [], "has no bound on the stack"),
    (r"rand|srand|random|srandom|drand48", [], "use base/rng"),
    (r"time|gettimeofday|clock_gettime|timespec_get|clock",
     [r"base/(os_clock|thread)\.c", r"tests/bench/line\.c", r"tests/proc/faulty_preload\.c"], "use base/os_clock"),
    (r"getrandom|getentropy", [r"base/os_rng\.c"], "use base/os_rng"),
    (r"sleep|usleep|nanosleep|clock_nanosleep", [], "wait for a condition with a deadline"),
    (r"exit", [r"cli/.*"], "only the command decides when the process ends"),
    (r"signal", [], "use sigaction or signalfd"),
    # The machine may lack it, which is no bug: see base/lack.h.
    (r"epoll_create1", [r"base/loop\.c", r"tests/.*"], "use loop_init"),
    (r"eventfd", [r"base/(loop|mailbox|os_files)\.c", r"http/accept\.c", r"tests/.*"],
     "use loop_wake_open"),
    (r"MHD_create_response_empty|MHD_create_response_for_upgrade|MHD_create_response_from_buffer"
     r"|MHD_create_response_from_callback|MHD_create_response_from_fd|MHD_create_response_from_iovec",
     [r"http/send\.c"], "use http_response_..."),
    (r"curl_global_init|curl_easy_init|curl_multi_init", [r"cli/(curl_handles|libcurl)\.c", r"tests/.*"],
     "use cli/curl_handles"),
    (r"dlopen", [r"cli/library\.c", r"tests/.*"], "use cli/library"),
    (r"malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|vasprintf",
     [r"base/mem\.c"], "use base/mem"),
]

# Members of libzabra_base.a that use the kernel or threads.
IMPURE_BASE = r"(os_\w+|log|loop\w*|mailbox|thread|crypto)\.c\.o"

# What a pure part may need of the C library, the compiler and its sanitizers.
LIBC_ALLOWED = (
    r"mem(cpy|move|set|cmp|chr|rchr|mem)|str(len|nlen|cmp|ncmp|chr|rchr|str|spn|cspn)"
    r"|strn?casecmp|v?snprintf|abs|qsort|bsearch|__(mem(cpy|move|set)|v?snprintf)_chk"
    r"|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__(asan|ubsan|tsan|sanitizer|lsan)_.*"
    r"|__udivti3|__umodti3|__ctype_b_loc"
)

# Words of prose that make a sentence hard to read, and what to write. A space stands for any blank.
WORDS = [
    (r"who|whoever|whom|nobody|somebody|he", "name the client or replica"),  # lint: words
    (r"anew", "write \"again\""),  # lint: words
    (r"(?:is|are|was|were|be|been) told", "say what receives, reports or shows it"),
    (r"(?:go|goes|went|gone|going) on", "write \"continues\", or what happens"),
    (r"is so", "say what is the case"),  # lint: words
]
WORDS_SUFFIXES = (".md", ".c", ".h", ".ts", ".tsx", ".js", ".mjs", ".css", ".yaml", ".py", ".sh")

# On the line of a false alarm, in a comment.
WORDS_MARK = "lint: words"

# Folders that are not yet clean, and how many they may still have. A figure may only be lowered.
WORDS_LEFT: dict[str, int] = {}
