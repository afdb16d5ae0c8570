/*
 * Questions whether a process lives, and their answers: PROBE goes to the process itself or to a
 * replica that is connected with it; ALIVE answers. claim.c and rival.c decide when to ask and what
 * follows from an answer.
 *
 * A question is open for `probe_ms` on the connection that carried it. An ALIVE that comes later,
 * over another connection, about another process or without a question is ignored: it may be older
 * than the claim. Per connection, process and `probe_ms` one question is asked, with one exception.
 * The deadline of a claim that asks now is seven eighths of `probe_ms` ahead. A question that has
 * been open for more than an eighth of `probe_ms` (the pause before a claim asks) would end before
 * that deadline. If the claim needs the answer, here or at a replica that sends a PROBE to this
 * one, the question is sent again, and so stays open until the deadline.
 */
#include "zab/tcp/tcp_int.h"

#include <stdio.h>

void probe_send(struct link *link, const struct control *control)
{
    if (link_is_up(link) && link->up->queued < conn_queue_max(link->up)) {
        flow_control(link->up, control);
    }
}

/* Whether the question about process `start` was sent less than `probe_ms` ago, answered or not. */
static bool is_within_its_time(const struct tcp *tcp, const struct question *question,
                               uint64_t start, uint64_t now_ms)
{
    return question->start == start && tcp_within(tcp, question->asked_ms, now_ms);
}

/* Whether to send the question. An open question that is no older than the pause of a claim is not
 * repeated: it stays open until the deadline of a claim that asks now. */
static bool is_to_ask(const struct tcp *tcp, const struct question *question, uint64_t start,
                      uint64_t now_ms)
{
    uint64_t pause_ms = tcp->options.probe_ms / TCP_PAUSE_SHARE;

    return !is_within_its_time(tcp, question, start, now_ms) ||
           (question->is_open && question->asked_ms + pause_ms < now_ms);
}

static void ask(struct tcp *tcp, struct link *to, const struct link *about, uint64_t start,
                const char *claimant)
{
    struct question *question = &to->questions[link_index(tcp, about)];
    struct control control = {.type = CONTROL_PROBE, .id = about->peer.id, .start = start};
    uint64_t now_ms = os_now_ms();

    ASSERT(start != 0);
    if (!is_to_ask(tcp, question, start, now_ms)) {
        return;
    }
    *question = (struct question){.asked_ms = now_ms, .start = start, .is_open = true};
    (void)snprintf(control.text, sizeof(control.text), "%s", claimant);
    probe_send(to, &control);
}

/* Whether this ALIVE answers the open question to `from` about `about`. Closes the question. */
static bool is_answer(struct tcp *tcp, struct link *from, const struct link *about,
                      const struct control *control)
{
    struct question *question = &from->questions[link_index(tcp, about)];
    bool fits = question->is_open && question->start == control->start &&
                tcp_within(tcp, question->asked_ms, os_now_ms());

    question->is_open = question->is_open && !fits;
    return fits;
}

/* Forgets the replicas whose question got no answer within `probe_ms`: they do not get the answer
 * to the next question. */
static void forget_askers(struct tcp *tcp, const struct link *target)
{
    uint64_t bit = UINT64_C(1) << link_index(tcp, target);

    for_each_link (link, tcp) {
        link->asks &= ~bit;
    }
}

void probe_peer(struct tcp *tcp, struct link *link, const char *claimant)
{
    ASSERT(link_is_up(link));

    uint64_t start = link->up->identity.start;
    const struct question *before = &link->questions[link_index(tcp, link)];

    if (!is_within_its_time(tcp, before, start, os_now_ms())) {
        forget_askers(tcp, link);
    }
    ask(tcp, link, link, start, claimant);
}

void probe_others(struct tcp *tcp, struct link *link, uint64_t start, const char *claimant)
{
    uint32_t index = link_index(tcp, link);

    for_each_link (other, tcp) {
        if (other != link && other->seen[index] != 0 && other->seen[index] != start) {
            ask(tcp, other, link, other->seen[index], claimant);
        }
    }
}

static void answer(struct link *to, uint32_t id, uint64_t start, bool yes, const char *address)
{
    struct control control = {.type = CONTROL_ALIVE, .id = id, .start = start, .yes = yes};

    (void)snprintf(control.text, sizeof(control.text), "%s", address);
    probe_send(to, &control);
}

/* Tells the replica `to` that the process of `of` lives. */
static void vouch(struct link *to, const struct link *of)
{
    char address[TCP_ADDRESS_MAX];

    ASSERT(link_is_up(of));
    claim_describe(of->up, address);
    answer(to, of->peer.id, of->up->identity.start, true, address);
}

void probe_on_probe(struct tcp *tcp, struct link *from, const struct control *control)
{
    struct link *target = NULL;
    char text[TCP_WHY_MAX];

    if (control->id == tcp->options.id) {
        answer(from, control->id, control->start, control->start == tcp->options.start, "");
        if (control->start == tcp->options.start && control->text[0] && !link_is_caller(from)) {
            claim_text(control->id, "this one", control->text, text);
            report_duplicate(tcp, control->id, text);
        }
        return;
    }
    if (link_is_caller(from)) {
        return;
    }
    target = tcp_link(tcp, control->id);
    if (!target || !link_is_up(target) || target->up->identity.start != control->start) {
        answer(from, control->id, control->start, false, "");
    } else if (tcp_within(tcp, target->alive_ms, os_now_ms())) {
        vouch(from, target);
    } else {
        probe_peer(tcp, target, control->text);
        from->asks |= UINT64_C(1) << link_index(tcp, target);
    }
}

/* Takes the process's own answer and forwards it to the replicas that asked. */
void probe_on_alive(struct tcp *tcp, struct link *link, const struct control *control)
{
    if (!is_answer(tcp, link, link, control) || !control->yes) {
        return;
    }
    link->alive_ms = os_now_ms();
    for_each_link (other, tcp) {
        if ((other->asks >> link_index(tcp, link)) & 1) {
            other->asks ^= UINT64_C(1) << link_index(tcp, link);
            vouch(other, link);
        }
    }
}

/* Handles the answer of replica `from` about the process with which it is connected under the id of
 * `link`: whether that process lives. */
void probe_on_vouched(struct tcp *tcp, struct link *from, struct link *link,
                      const struct control *control)
{
    uint32_t index = link_index(tcp, link);

    if (!is_answer(tcp, from, link, control) || from->seen[index] != control->start) {
        return; /* No question was open, or the replica has sent a newer SEEN since. */
    }
    if (!control->yes) {
        from->seen[index] = 0;
        return;
    }
    link->elsewhere = control->start;
    link->vouched_ms = os_now_ms();
    (void)snprintf(link->elsewhere_address, sizeof(link->elsewhere_address), "%.*s",
                   TCP_ADDRESS_MAX - 1, control->text[0] ? control->text : "?");
    link->yields = link_is_up(link) && link->up->identity.start > control->start;
}
