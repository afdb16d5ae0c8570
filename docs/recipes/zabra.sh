# What the recipes share: calls that are tried again elsewhere, a session, ways to wait.
#
# For any POSIX shell with curl; to be read in with `. ./zabra.sh`. See client.md beside this file.
# Paths and names here are of letters, digits and the like: nothing that URLs or JSON escape.
zabra_servers=$(echo "${ZABRA:-127.0.0.1:9998,127.0.0.1:9999,127.0.0.1:10000}" | tr , ' ')
zabra_timeout=${ZABRA_TIMEOUT:-10} # Of a session, in seconds.
zabra_patience=30                  # For one call, all its tries together, in seconds.
zabra_try=15                       # For one try.
zabra_wait=20                      # For one long poll; then it is asked again.
zabra_seen=0x0                     # No answer may be older than what we have seen,
zabra_history=''                   # which is of this history.
zabra_dir=$(mktemp -d)
zabra_session=$zabra_dir/session # The header with the secret: others can see command lines.
zabra_beat='' zabra_child='' status='' body=$zabra_dir/body
: >"$zabra_session"
trap 'zabra_end $?' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# --- Calls ---

# call METHOD URL [OPTION OF CURL]...: $status, and the file $body. Tried until it is known what
# became of it. The key makes a second try harmless.
call() {
    zabra_key=
    case $1$2 in
    GET* | *"/sessions/"*) ;;
    *) zabra_key="Idempotency-Key: $(cat /proc/sys/kernel/random/uuid)" ;;
    esac
    zabra_until=$(($(date +%s) + zabra_patience))
    while ! try_once "$@"; do
        if [ "$(date +%s)" -ge "$zabra_until" ]; then
            fail "$1 $2: no answer from any of $zabra_servers"
        fi
        zabra_servers="${zabra_servers#* } ${zabra_servers%% *}"
        sleep 0.1
    done
}

# In the background, because a shell is deaf to signals while it waits for anything else.
try_once() {
    zabra_method=$1 zabra_url=$2
    shift 2
    curl -sS -g -m "$zabra_try" -X "$zabra_method" -o "$body" -D "$zabra_dir/head" \
        -w '%{http_code}' -H "@$zabra_session" -H "Zk-Min-Zxid: $zabra_seen" \
        -H "Zk-History: $zabra_history" -H "$zabra_key" "$@" \
        "http://${zabra_servers%% *}$zabra_url" \
        >"$zabra_dir/status" 2>"$zabra_dir/error" &
    zabra_child=$!
    wait "$zabra_child" || echo 000 >"$zabra_dir/status"
    zabra_child=
    status=$(cat "$zabra_dir/status")
    if [ -n "${ZABRA_LOG:-}" ]; then
        echo "call ${zabra_servers%% *} $zabra_method $zabra_url $status" >&2
    fi
    case $status in
    401) fail "the session is lost" ;;
    000 | 429 | 503 | 504) return 1 ;;
    409)
        case $(field code) in
        InFlight) return 1 ;;
        HistoryChanged) fail "the ensemble was put back to another state" ;;
        esac
        ;;
    esac
    zabra_history=${zabra_history:-$(header zk-history)}
    zabra_zxid=$(header zk-zxid)
    if [ $((zabra_seen < ${zabra_zxid:-0})) = 1 ]; then zabra_seen=$zabra_zxid; fi
}

# header NAME, field NAME: of the last answer. A field is a number or a plain word.
header() {
    tr -d '\r' <"$zabra_dir/head" | sed -n "s/^$1: *//Ip"
}

field() {
    sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" "$body"
}

fail() {
    echo "$0: $*" >&2
    exit 1
}

# expect STATUS...: ends the program when the last answer has none of these.
expect() {
    case " $* " in
    *" $status "*) ;;
    *) fail "$zabra_method $zabra_url: $status $(field code): $(field detail)" ;;
    esac
}

# --- Znodes ---

# get PATH: 200 and the data as it is in $body, or 404.
get() {
    call GET "/znodes/v1$1" -H 'Accept: application/octet-stream'
    expect 200 204 404
}

# create PATH DATA [QUERY]: 201, or 409 when it is there; field path, field czxid.
create() {
    zabra_parent=${1%/*}
    call POST "/znodes/v1${zabra_parent:-/}?op=create&name=${1##*/}&${3:-parents=true}" \
        --data-binary "$2"
    expect 201 409
}

# children PATH: $names, one a line and in order; $etag to wait with.
children() {
    call GET "/znodes/v1$1?view=children"
    expect 200
    names=$(sed 's/.*"children":\[\([^]]*\)\].*/\1/' "$body" | tr ',' '\n' | tr -d '"')
    etag=$(header etag)
}

# --- Waiting ---

# wait_change URL ETAG: until the answer is another one than that of this entity tag, 200 or 404.
wait_change() {
    zabra_try=$((zabra_wait + 10)) zabra_patience=$((zabra_wait + 30))
    call GET "$1" -H "If-None-Match: $2" -H "Prefer: wait=$zabra_wait"
    while [ "$status" = 304 ]; do
        sleep 0.1 # Waiting is a wish: 304 may come at once.
        call GET "$1" -H "If-None-Match: $2" -H "Prefer: wait=$zabra_wait"
    done
    zabra_try=15 zabra_patience=30
    expect 200 404
}

# wait_gone PATH: until the znode that is there now has been deleted.
wait_gone() {
    call GET "/znodes/v1$1?dataformat=none"
    zabra_czxid=$(field czxid)
    while [ "$status" = 200 ] && [ "$(field czxid)" = "$zabra_czxid" ]; do
        wait_change "/znodes/v1$1?dataformat=none" "$(header etag)"
    done
    expect 200 404
}

# --- A session ---

# Opens it; it is closed when the program ends.
open_session() {
    call POST "/sessions/v1/?op=create&expire=$zabra_timeout"
    expect 201
    zabra_ms=$(field timeout_ms)
    echo "Zk-Session: $(field id)" >"$zabra_session"
    heartbeat >/dev/null &
    zabra_beat=$!
}

# Every third of the time-out; after two thirds without an answer we are on our own. A program that
# was killed is not kept alive.
heartbeat() {
    trap - EXIT
    trap 'kill "$zabra_child" 2>/dev/null; exit' TERM
    zabra_all=$zabra_dir zabra_dir=$zabra_dir/beat body=/dev/null
    mkdir "$zabra_dir"
    zabra_patience=$((zabra_ms / 3000 + 1)) zabra_try=$((zabra_ms / 6000 + 1))
    while :; do
        sleep "$((zabra_ms / 3000)).$((zabra_ms / 3 % 1000 / 100))" &
        zabra_child=$!
        wait "$zabra_child"
        if ! kill -0 $$ 2>/dev/null; then
            rm -rf "$zabra_all"
            exit
        fi
        (call PUT /sessions/v1/ && expect 200) || kill -TERM $$
    done
}

# hold COMMAND...: runs it; it is killed when the session is lost. Its exit code.
hold() {
    "$@" &
    zabra_child=$!
    wait "$zabra_child"
    zabra_code=$?
    zabra_child=
    return "$zabra_code"
}

# Until SIGTERM comes or the session is lost.
stay() {
    hold sleep infinity
}

zabra_end() {
    trap - EXIT
    trap '' TERM
    if [ -n "$zabra_beat" ]; then kill "$zabra_beat" 2>/dev/null; fi
    if [ -n "$zabra_child" ]; then kill -KILL "$zabra_child" 2>/dev/null; fi
    if [ -s "$zabra_session" ]; then
        zabra_patience=2 zabra_try=1
        (call DELETE /sessions/v1/) 2>/dev/null # Or it expires by itself.
    fi
    rm -rf "$zabra_dir"
    exit "$1"
}
