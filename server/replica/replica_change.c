/* Changes of the configuration for clients: the leader judges them, and proposes them with the
 * transaction that has the answer. */
#include "server/op/change.h"
#include "server/replica/replica_int.h"

_Static_assert((int)OP_MEMBERS_MAX == (int)ZAB_MEMBERS_MAX &&
                   (int)OP_MEMBER_ID_MAX == (int)ZAB_ID_MAX &&
                   (int)OP_HOST_MAX == (int)ZAB_HOST_MAX &&
                   (int)OP_CLIENT_MAX == (int)ZAB_CLIENT_MAX &&
                   (int)OP_ZONE_MAX == (int)ZAB_ZONE_MAX,
               "operations and protocol have the same limits");

enum {
    /* An attempt takes a tick, and the request is judged again right after it. A later request, of
     * another client perhaps, gets an attempt of its own. */
    HANDOVER_TICKS = 2
};

/* A change as the protocol takes it; its texts are those of the arguments. */
struct wanted {
    struct zab_change change;
    struct zab_change_item items[OP_MEMBERS_MAX];
};

/* ---- From arguments. ---- */

static struct zab_change_item *add_item(struct wanted *wanted, enum zab_change_what what,
                                        uint32_t id)
{
    ASSERT(wanted->change.item_count < OP_MEMBERS_MAX);
    struct zab_change_item *item = &wanted->items[wanted->change.item_count++];

    *item = (struct zab_change_item){.what = what, .id = id};
    return item;
}

static void add_ids(struct wanted *wanted, enum zab_change_what what, struct slice ids)
{
    for (uint32_t i = 0; i < op_ids_count(ids); i++) {
        (void)add_item(wanted, what, op_ids_at(ids, i));
    }
}

static void add_texts(struct zab_change_item *item, const struct op_args *args)
{
    if (args->has_peer) {
        bool sound = op_address_split(args->peer, &item->texts.host, &item->texts.port);

        ASSERT(sound); /* op_change_check has accepted it. */
    }
    item->texts.client = args->client;
    item->texts.zone = args->zone;
    item->sets_address = args->has_peer;
    item->sets_client = args->has_client;
    item->sets_zone = args->has_zone;
}

/* Takes the change of one member: its role and texts. */
static void set_member(struct wanted *wanted, const struct op_args *args)
{
    if (args->role == OP_ROLE_VOTER) {
        (void)add_item(wanted, ZAB_CHANGE_PROMOTE, args->member);
    } else if (args->role == OP_ROLE_OBSERVER) {
        (void)add_item(wanted, ZAB_CHANGE_DEMOTE, args->member);
    } else {
        add_texts(add_item(wanted, ZAB_CHANGE_EDIT, args->member), args);
    }
}

static void take_args(const struct op_args *args, struct wanted *wanted)
{
    struct zab_change_item *added = NULL;

    wanted->change = (struct zab_change){
        .items = wanted->items,
        .checks_version = args->op != OP_LEVEL && args->has_etag,
        .version = args->etag_czxid,
        .level = (uint16_t)args->raise,
        .force = args->force,
        .sets_hold = args->has_hold,
        .hold = (uint16_t)args->hold,
        .min_tolerance = args->has_tolerance ? args->min_tolerance : ZAB_TOLERANCE_DEFAULT,
    };
    switch ((int)args->op) {
    case OP_MEMBER_ADD:
        added = add_item(wanted, ZAB_CHANGE_ADD, args->member);
        added->joining = args->auto_promote;
        add_texts(added, args);
        break;
    case OP_MEMBER_SET:
        set_member(wanted, args);
        break;
    case OP_MEMBER_REMOVE:
        (void)add_item(wanted, ZAB_CHANGE_REMOVE, args->member);
        break;
    case OP_MEMBERS_CHANGE:
        add_ids(wanted, ZAB_CHANGE_REMOVE, args->remove);
        add_ids(wanted, ZAB_CHANGE_PROMOTE, args->promote);
        add_ids(wanted, ZAB_CHANGE_DEMOTE, args->demote);
        break;
    }
}

bool lead_is_change(enum op_id op)
{
    return op == OP_LEVEL || op_changes_members(op);
}

/* ---- The answer. ---- */

static enum op_role role_of(const struct zab_member *member)
{
    if (member->empty_seat) {
        return OP_ROLE_EMPTY_SEAT;
    }
    return member->voter ? OP_ROLE_VOTER : OP_ROLE_OBSERVER;
}

static const struct zab_change_item *item_of(const struct wanted *wanted, uint32_t id)
{
    for (uint32_t i = 0; i < wanted->change.item_count; i++) {
        if (wanted->items[i].id == id) {
            return &wanted->items[i];
        }
    }
    return NULL;
}

static void put_member(struct op_change *answer, struct op_change_member member)
{
    uint32_t at = answer->count;

    ASSERT(at < OP_MEMBERS_MAX);
    while (at > 0 && answer->members[at - 1].id > member.id) {
        answer->members[at] = answer->members[at - 1];
        at--;
    }
    answer->members[at] = member;
    answer->count++;
}

/* Lists the members as they are after the change, which has been judged. */
static void list_members(const struct zab_config *config, const struct wanted *wanted,
                         struct op_change *answer)
{
    for_each_member (member, config) {
        const struct zab_change_item *item = item_of(wanted, member->id);
        struct op_change_member now = {member->id, role_of(member), member->joining};

        if (item && item->what == ZAB_CHANGE_REMOVE) {
            continue;
        }
        if (item && (item->what == ZAB_CHANGE_PROMOTE || item->what == ZAB_CHANGE_DEMOTE)) {
            now.role = item->what == ZAB_CHANGE_PROMOTE ? OP_ROLE_VOTER : OP_ROLE_OBSERVER;
            now.joining = false;
        }
        put_member(answer, now);
    }
    for (uint32_t i = 0; i < wanted->change.item_count; i++) {
        const struct zab_change_item *item = &wanted->items[i];

        if (item->what == ZAB_CHANGE_ADD) {
            put_member(answer,
                       (struct op_change_member){item->id, OP_ROLE_OBSERVER, item->joining});
        }
    }
}

/* Writes the answer of a change that can be made as `zxid`; 0: it is only tried. */
static void write_answer(struct replica *replica, const struct wanted *wanted,
                         const struct zab_change_report *report, zxid_t zxid, struct buf *out)
{
    struct op_change answer = {.version = zxid,
                               .previous = report->previous,
                               .tolerance_before = report->tolerance_before,
                               .tolerance_after = report->tolerance_after,
                               .in_step = report->in_step};

    list_members(zab_config(replica->zab), wanted, &answer);
    buf_clear(out);
    op_change_encode(&answer, out);
    ASSERT(!out->overflow);
}

/* ---- Judging. ---- */

static enum err err_of(enum zab_fault fault)
{
    switch ((int)fault) {
    case ZAB_FAULT_NONE:
        return ERR_OK;
    case ZAB_FAULT_NOT_READY:
        return ERR_NOT_READY;
    case ZAB_FAULT_VERSION:
        return ERR_BAD_VERSION;
    case ZAB_FAULT_ID_UNKNOWN:
        return ERR_NOT_FOUND;
    }
    return ERR_CHANGE_REFUSED;
}

static void note_fault(enum zab_fault fault, const struct zab_change_report *report,
                       struct prep_verdict *verdict)
{
    zab_fault_text(fault, report, verdict->why);
    verdict->err = err_of(fault);
    verdict->reason = verdict->err == ERR_CHANGE_REFUSED ? zab_fault_name(fault) : NULL;
}

void lead_judge(struct replica *replica, const struct op_args *args, zxid_t zxid,
                struct prep_verdict *ret_verdict)
{
    struct zab_change_report report;
    struct wanted wanted;

    take_args(args, &wanted);
    wanted.change.dry_run = true;
    enum zab_fault fault =
        zab_change(replica->zab, &wanted.change, slice_make(NULL, 0), &report, &replica->inner);

    ret_verdict->err = ERR_OK;
    ret_verdict->reason = NULL;
    ret_verdict->must_hand_over = false;
    ret_verdict->must_wait = fault == ZAB_FAULT_NOT_READY && report.is_early;
    buf_clear(&ret_verdict->answer);
    if (fault != ZAB_FAULT_NONE) {
        note_fault(fault, &report, ret_verdict);
    } else if (report.leader_leaves && !args->dry_run) {
        report.member = replica->options.zab.id;
        ret_verdict->must_hand_over = true;
        note_fault(ZAB_FAULT_LEADER_LEAVES, &report, ret_verdict);
    }
    if (op_changes_members(args->op) && (fault == ZAB_FAULT_NONE || fault == ZAB_FAULT_VERSION)) {
        if (fault == ZAB_FAULT_VERSION) {
            wanted.change.item_count = 0;
        }
        write_answer(replica, &wanted, &report,
                     fault == ZAB_FAULT_NONE && !args->dry_run ? zxid : 0, &ret_verdict->answer);
    }
}

enum lead_outcome lead_hand_over(struct replica *replica, struct op_result *result)
{
    struct zab_change_report report = {.member = replica->options.zab.id};
    uint64_t tick_ms = replica->options.zab.limits.tick_ms;
    char why[ZAB_TEXT_MAX];

    op_result_release(result);
    if (replica->now_ms >= replica->leader.hands_over_ms && zab_hand_over(replica->zab)) {
        PROBE("replica.hands_over");
        replica->leader.hands_over_ms = replica->now_ms + HANDOVER_TICKS * tick_ms;
        return LEAD_LATER;
    }
    /* It was tried: no other voter has become the leader. */
    replica->leader.hands_over_ms = 0;
    zab_fault_text(ZAB_FAULT_NO_SUCCESSOR, &report, why);
    buf_append_str(&result->arena, why);
    buf_append_byte(&result->arena, 0);
    ASSERT(!result->arena.overflow);
    result->err = ERR_CHANGE_REFUSED;
    result->detail = (const char *)result->arena.data;
    result->reason = zab_fault_name(ZAB_FAULT_NO_SUCCESSOR);
    return LEAD_REFUSED;
}

void lead_propose_change(struct replica *replica, const struct op_args *args, struct slice txn)
{
    struct zab_change_report report;
    struct wanted wanted;

    take_args(args, &wanted);
    enum zab_fault fault = zab_change(replica->zab, &wanted.change, txn, &report, &replica->inner);

    ASSERT(fault == ZAB_FAULT_NONE); /* lead_judge has found none. */
}
