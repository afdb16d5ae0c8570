/* Failed credentials, as the front ends report them. */
#include "base/log.h"
#include "base/os_clock.h"
#include "server/process/gate.h"
#include "server/process/server_int.h"
#include "server/read/view.h"

const char gate_credentials_slowed[] =
    "too many wrong passwords from this address; try again later";

uint32_t gate_credentials_wait(struct gate *gate, const struct op_principal *who, uint32_t first)
{
    return guard_wait(&gate->guard, who, first, os_now_ns());
}

void gate_credentials_seen(struct gate *gate, const struct op_principal *who)
{
    if (who->auth) {
        guard_seen(&gate->guard, who, os_now_ns());
    }
}

void gate_credentials_refused(struct gate *gate, const struct op_request *request)
{
    if (request->result.err == ERR_NO_AUTH && request->principal.auth) {
        view_note_refusal(gate->server->view, &request->principal, &request->args);
    }
}

void gate_credentials_failed(struct gate *gate, const struct op_principal *who,
                             enum gate_failure kind)
{
    guard_failed(&gate->guard, who, kind);
}

/* The sampler's thread, each second. */
void gate_guard_log(struct gate *gate, uint64_t now_ms)
{
    char line[GUARD_LINE_MAX];

    for (int i = 0; i <= GUARD_ADDRESSES_MAX && guard_line(&gate->guard, now_ms, line); i++) {
        log_warn("auth", "%s", line);
    }
}
