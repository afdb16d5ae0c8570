/* Replicas that are in no list: which one gets a place, what it may do with it, and when it loses
 * it. */
#include "tests/lib/cert_kit.h"
#include "tests/unit/tcp_site_kit.h"

enum {
    MOST = TCP_OUTSIDERS_MAX
};

static void start_member(void)
{
    site_start(&(struct site_setup){.id = 1, .outsiders_max = MOST});
}

static void start_joiner(uint32_t id)
{
    site_start(&(struct site_setup){.id = id, .outsiders_max = MOST});
    site_join(id, (const uint32_t[]){1, 0});
}

/* ---- Places. ---- */

/* Both sides say why; a place that becomes free is taken. */
TEST(there_are_a_few_places, sites_set_up, sites_tear_down)
{
    uint32_t last = MOST + 2;

    start_member();
    for (uint32_t id = 2; id < last; id++) {
        start_joiner(id);
        SITE_UNTIL(sites[1].is_up[id]);
    }
    start_joiner(last);
    SITE_UNTIL(sites[1].refusals > 0 && sites[last].joins > 0);
    assert_string_equal(sites[last].joining,
                        "replica 1 is connected with 8 replicas that are no members, and takes no "
                        "more of them: add or stop some");
    assert_string_equal(sites[1].why, sites[last].joining);
    assert_int_equal(sites[last].duplicates, 0);
    assert_int_equal(site_outsiders(1), MOST);
    site_stop(2);
    SITE_UNTIL(sites[1].is_up[last]);
    assert_int_equal(site_outsiders(1), MOST);
    for (uint32_t id = 3; id < last; id++) {
        assert_int_equal(sites[1].downs[id], 0);
    }
}

/* One that is added keeps its connection and leaves its place to others. */
TEST(an_outsider_becomes_a_member, sites_set_up, sites_tear_down)
{
    start_member();
    start_joiner(5);
    SITE_UNTIL(sites[1].is_up[5]);
    assert_int_equal(site_outsiders(1), 1);
    site_set_list(1, (const uint32_t[]){5, 0});
    site_set_list(5, (const uint32_t[]){1, 0});
    assert_int_equal(site_outsiders(1) + site_outsiders(5), 0);
    site_run_for(100);
    assert_int_equal(sites[1].downs[5] + sites[5].downs[1], 0);
    sites[5].speaks = false; /* A member may be silent. */
    site_run_for(SITE_SILENCE_MS * UINT64_C(2));
    assert_true(sites[1].is_up[5]);
    tcp_disconnect(sites[1].tcp, 5);
    SITE_UNTIL(sites[1].ups[5] == 2);
    assert_false(sites[1].is_outsider[5] || sites[5].is_outsider[1]);
}

/* One that was removed may come back, and find out that it was. */
TEST(a_member_becomes_an_outsider, sites_set_up, sites_tear_down)
{
    start_member();
    site_start(&(struct site_setup){.id = 5, .listed = {1}, .outsiders_max = MOST});
    site_set_list(1, (const uint32_t[]){5, 0});
    SITE_UNTIL(sites[1].is_up[5] && sites[5].is_up[1]);
    assert_false(sites[1].is_outsider[5]);
    site_set_list(1, (const uint32_t[]){0});
    SITE_UNTIL(sites[1].downs[5] == 1);
    assert_string_equal(sites[1].down, "the peer is no longer a member");
    SITE_UNTIL(sites[1].is_up[5]);
    assert_true(sites[1].is_outsider[5]);
    assert_false(sites[5].is_outsider[1]);
}

/* Members may fill all slots. The last outsider that came gives way. */
TEST(a_member_takes_the_place_of_an_outsider, sites_set_up, sites_tear_down)
{
    struct tcp_peer peers[ZAB_MEMBERS_MAX];

    start_member();
    start_joiner(2);
    SITE_UNTIL(sites[1].is_up[2]);
    site_run_for(5);
    start_joiner(3);
    SITE_UNTIL(sites[1].is_up[3]);
    for (uint32_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
        peers[i] = (struct tcp_peer){.id = 100 + i};
    }
    tcp_set_peers(sites[1].tcp, peers, ZAB_MEMBERS_MAX - 2);
    site_run_for(20);
    assert_true(sites[1].is_up[2] && sites[1].is_up[3]);
    tcp_set_peers(sites[1].tcp, peers, ZAB_MEMBERS_MAX - 1);
    SITE_UNTIL(!sites[1].is_up[3]);
    assert_string_equal(sites[1].down, "a member takes the place of this replica, which is none");
    assert_true(sites[1].is_up[2]);
    tcp_set_peers(sites[1].tcp, peers, ZAB_MEMBERS_MAX);
    SITE_UNTIL(!sites[1].is_up[2]);
    site_run_for(100);
    assert_int_equal(sites[1].ups[2] + sites[1].ups[3], 2);
    tcp_set_peers(sites[1].tcp, peers, 1);
    SITE_UNTIL(sites[1].is_up[2] && sites[1].is_up[3]);
}

/* ---- Before the proof. ---- */

static int connect_to(uint16_t port)
{
    struct sockaddr_in addr = kit_loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

/* Callers that only give an id take no place, and keep no one out. */
TEST(a_greeting_gives_no_place, sites_set_up, sites_tear_down)
{
    struct greeting greeting = {.version = PROTOCOL_VERSION};
    uint8_t bytes[GREETING_LEN];
    int fds[40];

    start_member();
    for (uint32_t i = 0; i < 40; i++) {
        fds[i] = connect_to(sites[1].port);
        greeting.from = 1000 + i;
        greeting.to = i % 2;
        greeting_encode(&greeting, bytes);
        assert_int_equal(write(fds[i], bytes, sizeof(bytes)), sizeof(bytes));
    }
    site_run_for(50);
    assert_int_equal(sites[1].tcp->used, 0);
    start_joiner(9);
    SITE_UNTIL(sites[1].is_up[9]);
    for (int i = 0; i < 40; i++) {
        close(fds[i]);
    }
}

/* A release of version 7 knows no outsiders. */
TEST(an_earlier_release_needs_a_list, sites_set_up, sites_tear_down)
{
    struct greeting greeting = {.version = PROTOCOL_VERSION - 1, .from = 9, .to = 1};
    uint8_t bytes[GREETING_LEN];
    int fd = -1;

    if (kit_sealed()) {
        return; /* The greeting is written without TLS. */
    }
    start_member();
    fd = connect_to(sites[1].port);
    greeting_encode(&greeting, bytes);
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    SITE_UNTIL(sites[1].refusals == 1);
    assert_non_null(strstr(sites[1].why, "replica 9 connects, but is not in the server list"));
    close(fd);
}

TEST(a_plain_outsider_is_refused_where_tls_is_required, sites_set_up, sites_tear_down)
{
    if (kit_sealed()) {
        return;
    }
    site_start(&(struct site_setup){.id = 1, .outsiders_max = MOST, .tls = KEYS_REQUIRED});
    start_joiner(9);
    SITE_UNTIL(sites[1].refusals > 0 && sites[9].joins > 0);
    assert_non_null(strstr(sites[1].why, "this replica has peerTls=required"));
    assert_int_equal(sites[1].tcp->used, 0);
}

/* ---- Certificates. ---- */

struct certs {
    struct cert_kit kit;
    char paths[SITES][2][CERT_KIT_PATH_MAX];
    char ca[CERT_KIT_PATH_MAX];
};

static void open_certs(struct certs *certs)
{
    sites_set_up();
    cert_kit_open(&certs->kit);
    (void)cert_kit_path(&certs->kit, "ca.pem", certs->ca);
}

static void close_certs(struct certs *certs)
{
    sites_tear_down();
    cert_kit_close(&certs->kit);
}

/* Starts a replica whose certificate has these names and this URI; no secret. */
static void start_certified(struct certs *certs, struct site_setup setup, const char *names,
                            const char *uri)
{
    struct cert_kit_spec spec = {
        .kind = ISSUE_PEER, .common = "replica", .names = names, .uri = uri};
    char name[16];
    char file[32];

    (void)snprintf(name, sizeof(name), "peer-%u", setup.id);
    cert_kit_add(&certs->kit, name, &spec);
    (void)snprintf(file, sizeof(file), "%s.pem", name);
    (void)cert_kit_path(&certs->kit, file, certs->paths[setup.id][0]);
    (void)snprintf(file, sizeof(file), "%s.key", name);
    (void)cert_kit_path(&certs->kit, file, certs->paths[setup.id][1]);
    setup.files = (struct keys_options){.cert_file = certs->paths[setup.id][0],
                                        .key_file = certs->paths[setup.id][1],
                                        .ca_file = certs->ca};
    setup.secret = "";
    setup.tls = KEYS_REQUIRED;
    setup.outsiders_max = MOST;
    site_start(&setup);
}

TEST(an_outsider_proves_its_id_by_a_uri, certs, open_certs, close_certs)
{
    start_certified(certs, (struct site_setup){.id = 1}, NULL, "zabra://kit/1");
    start_certified(certs, (struct site_setup){.id = 9}, "127.0.0.1", NULL);
    site_join(9, (const uint32_t[]){1, 0});
    SITE_UNTIL(sites[1].refusals > 0);
    assert_non_null(strstr(sites[1].why, "its certificate is not one of replica 9: it must include "
                                         "zabra://ENSEMBLE/9, because its host is unknown"));
    assert_int_equal(sites[1].tcp->used, 0);
    site_stop(9);
    start_certified(certs, (struct site_setup){.id = 9}, NULL, "zabra://kit/9");
    site_join(9, (const uint32_t[]){1, 0});
    SITE_UNTIL(sites[1].is_up[9] && sites[9].is_up[1]);
}

/* A certificate of replica 9 makes no replica 8. */
TEST(an_outsider_with_the_certificate_of_another_is_refused, certs, open_certs, close_certs)
{
    start_certified(certs, (struct site_setup){.id = 1}, NULL, "zabra://kit/1");
    start_certified(certs, (struct site_setup){.id = 8}, NULL, "zabra://kit/9");
    site_join(8, (const uint32_t[]){1, 0});
    SITE_UNTIL(sites[1].refusals > 0);
    assert_non_null(strstr(sites[1].why, "its certificate is not one of replica 8"));
}

/* The replica that answers must have the host that was dialed, or the URI of the id that it says
 * it has. */
TEST(the_one_that_answers_proves_the_host_that_was_dialed, certs, open_certs, close_certs)
{
    start_certified(certs, (struct site_setup){.id = 1}, "127.0.0.1", NULL);
    start_certified(certs, (struct site_setup){.id = 9}, NULL, "zabra://kit/9");
    site_join(9, (const uint32_t[]){1, 0});
    SITE_UNTIL(sites[1].is_up[9] && sites[9].is_up[1]);
    site_stop(1);
    start_certified(certs, (struct site_setup){.id = 1}, "zk1.example", "zabra://kit/2");
    SITE_UNTIL(strstr(sites[9].joining, "its certificate is not one of replica 1"));
    assert_false(sites[9].is_up[1]);
}

/* The host of a replica of the list proves only that replica, wherever its address comes from. */
TEST(the_host_of_a_member_proves_no_one_else, certs, open_certs, close_certs)
{
    struct tcp_peer member = {.id = 2, .host = "127.0.0.1", .port = 1};

    start_certified(certs, (struct site_setup){.id = 1}, "127.0.0.1", NULL);
    start_certified(certs, (struct site_setup){.id = 9}, NULL, "zabra://kit/9");
    tcp_set_peers(sites[9].tcp, &member, 1);
    site_join(9, (const uint32_t[]){1, 0});
    SITE_UNTIL(strstr(sites[9].joining, "it must include zabra://ENSEMBLE/1, because several "
                                        "replicas have its host"));
    tcp_set_peers(sites[9].tcp, NULL, 0);
    SITE_UNTIL(sites[9].is_up[1]);
}

/* ---- Before an address changes. ---- */

static uint32_t ask(const char *host, const char *next_host, const char *other_host, char *why)
{
    struct tcp_peer peers[2] = {{.id = 2, .port = 1}, {.id = 3, .port = 1}};

    (void)snprintf(peers[0].host, sizeof(peers[0].host), "%s", host);
    (void)snprintf(peers[0].next_host, sizeof(peers[0].next_host), "%s", next_host);
    (void)snprintf(peers[1].host, sizeof(peers[1].host), "%s", other_host);
    why[0] = '\0';
    return tcp_locks_out(sites[1].tcp, peers, 2, why);
}

TEST(a_list_that_locks_a_replica_out, certs, open_certs, close_certs)
{
    char why[TCP_TEXT_MAX];

    start_certified(certs, (struct site_setup){.id = 1}, NULL, "zabra://kit/1");
    start_certified(certs, (struct site_setup){.id = 2, .listed = {1}}, "127.0.0.1", NULL);
    site_set_list(1, (const uint32_t[]){2, 0});
    SITE_UNTIL(sites[1].is_up[2]);
    assert_int_equal(ask("127.0.0.1", "", "zk3", why), 0);
    assert_int_equal(ask("127.0.0.1", "zk2", "zk3", why), 0);
    assert_int_equal(ask("zk2", "", "zk3", why), 2);
    assert_string_equal(why, "its certificate is not one of replica 2: the names in it "
                             "(IP:(address)) do not include zk2 of server.2");
    assert_int_equal(ask("127.0.0.1", "", "127.0.0.1", why), 2);
    assert_non_null(strstr(why, "because several replicas have its host"));
    tcp_disconnect(sites[1].tcp, 2); /* Nothing is known of one that is not connected. */
    assert_int_equal(ask("zk2", "", "zk3", why), 0);
}

TEST(a_secret_needs_no_names, sites_set_up, sites_tear_down)
{
    char why[TCP_TEXT_MAX];

    start_member();
    site_start(&(struct site_setup){.id = 2, .listed = {1}});
    site_set_list(1, (const uint32_t[]){2, 0});
    SITE_UNTIL(sites[1].is_up[2]);
    assert_int_equal(ask("zk2", "", "zk2", why), 0);
}

/* ---- Two processes of one id. ---- */

/* The second process of an id is refused while the first one lives, and the id is free later. */
TEST(two_outsiders_of_one_id, sites_set_up, sites_tear_down)
{
    start_member();
    site_start(&(struct site_setup){.id = 5, .outsiders_max = MOST, .start = 1000});
    site_join(5, (const uint32_t[]){1, 0});
    SITE_UNTIL(sites[1].is_up[5]);
    site_start(&(struct site_setup){.slot = 6, .id = 5, .outsiders_max = MOST, .start = 2000});
    site_join(6, (const uint32_t[]){1, 0});
    SITE_UNTIL(sites[6].duplicates > 0 && sites[1].duplicates > 0);
    assert_non_null(strstr(sites[1].why, "two processes claim id 5"));
    assert_int_equal(site_outsiders(1), 1);
    assert_int_equal(sites[1].ups[5], 1);
    site_stop(5);
    SITE_UNTIL(sites[6].is_up[1]);
    assert_int_equal(sites[1].ups[5], 2);
    assert_int_equal(site_outsiders(1), 1);
}

/* Each has found another member; the two members tell each other. */
TEST(two_outsiders_of_one_id_at_two_members, sites_set_up, sites_tear_down)
{
    site_start(&(struct site_setup){.id = 1, .listed = {2}, .outsiders_max = MOST});
    site_start(&(struct site_setup){.id = 2, .listed = {1}, .outsiders_max = MOST});
    site_set_list(1, (const uint32_t[]){2, 0});
    SITE_UNTIL(sites[1].is_up[2] && sites[2].is_up[1]);
    site_start(&(struct site_setup){.id = 5, .outsiders_max = MOST, .start = 1000});
    site_join(5, (const uint32_t[]){1, 0});
    SITE_UNTIL(sites[1].is_up[5]);
    site_run_for(20);
    site_start(&(struct site_setup){.slot = 6, .id = 5, .outsiders_max = MOST, .start = 2000});
    site_join(6, (const uint32_t[]){2, 0});
    SITE_UNTIL(sites[6].duplicates > 0);
    assert_int_equal(sites[2].ups[5], 0);
}

/* What an outsider says about others does not count: replica 2 is not refused although the outsider
 * says that another process has its id and lives. */
TEST(an_outsider_says_nothing_about_members, sites_set_up, sites_tear_down)
{
    struct control seen = {.type = CONTROL_SEEN, .seen_count = 1, .seen = {{.id = 2, .start = 77}}};
    struct control lie = {.type = CONTROL_REFUSED, .text = "two processes have your id"};
    struct link *link = NULL;

    start_member();
    start_joiner(5);
    SITE_UNTIL(sites[5].is_up[1] && sites[1].is_up[5]);
    link = tcp_link(sites[5].tcp, 1);
    flow_control(link->up, &seen);
    SITE_UNTIL(tcp_link(sites[1].tcp, 5)->told_count == 1);
    site_start(&(struct site_setup){.id = 2, .listed = {1}});
    site_set_list(1, (const uint32_t[]){2, 0});
    SITE_UNTIL(sites[1].is_up[2]);
    assert_int_equal(sites[1].duplicates, 0);
    assert_int_equal(
        tcp_link(sites[1].tcp, 5)->seen[link_index(sites[1].tcp, tcp_link(sites[1].tcp, 2))], 0);
    flow_control(link->up, &lie);
    SITE_UNTIL(sites[1].downs[5] == 1);
    assert_int_equal(sites[1].duplicates, 0);
}

/* It counts once the replica is a member. */
TEST(what_a_new_member_has_said_counts, sites_set_up, sites_tear_down)
{
    struct control seen = {.type = CONTROL_SEEN, .seen_count = 1, .seen = {{.id = 3, .start = 77}}};
    const struct link *link = NULL;

    start_member();
    site_set_list(1, (const uint32_t[]){3, 0});
    start_joiner(5);
    SITE_UNTIL(sites[5].is_up[1] && sites[1].is_up[5]);
    flow_control(tcp_link(sites[5].tcp, 1)->up, &seen);
    link = tcp_link(sites[1].tcp, 5);
    SITE_UNTIL(link->told_count == 1 && link->told[0].id == 3);
    assert_int_equal(link->seen[link_index(sites[1].tcp, tcp_link(sites[1].tcp, 3))], 0);
    site_set_list(1, (const uint32_t[]){3, 5, 0});
    assert_int_equal(link->seen[link_index(sites[1].tcp, tcp_link(sites[1].tcp, 3))], 77);
}

/* ---- Bounds. ---- */

TEST(an_outsider_that_sends_nothing_is_disconnected, sites_set_up, sites_tear_down)
{
    start_member();
    start_joiner(5);
    start_joiner(6);
    sites[5].speaks = false;
    SITE_UNTIL(sites[1].downs[5] == 1);
    assert_string_equal(sites[1].down, "the peer is no member, and says nothing");
    assert_int_equal(sites[1].downs[6], 0);
    assert_true(sites[1].is_up[6]);
}

TEST(an_outsider_that_reads_nothing_is_disconnected, sites_set_up, sites_tear_down)
{
    uint8_t bytes[64 << 10] = {0};
    struct zab_msg msg = {.type = ZAB_FORWARD, .forward.bytes = slice_make(bytes, sizeof(bytes))};
    struct tcp_figures figures;
    struct tcp *silent = NULL;

    start_member();
    start_joiner(5);
    SITE_UNTIL(sites[1].is_up[5] && sites[5].is_up[1]);
    silent = sites[5].tcp;
    sites[5].tcp = NULL; /* It does not turn. */
    for (int i = 0; i < 1000 && sites[1].is_up[5]; i++) {
        tcp_send(sites[1].tcp, 5, &msg);
        tcp_figures(sites[1].tcp, &figures);
        assert_true(figures.queued <= TCP_OUTSIDER_QUEUE_MAX + sizeof(bytes) + 1024);
        tcp_flush(sites[1].tcp);
    }
    assert_false(sites[1].is_up[5]);
    assert_non_null(strstr(sites[1].down, "the peer does not read"));
    sites[5].tcp = silent;
}

TEST(an_outsider_sends_no_long_messages, sites_set_up, sites_tear_down)
{
    uint8_t bytes[TCP_OUTSIDER_FRAME_MAX + 1] = {0};
    struct zab_msg msg = {.type = ZAB_FORWARD, .forward.bytes = slice_make(bytes, sizeof(bytes))};

    start_member();
    start_joiner(5);
    SITE_UNTIL(sites[1].is_up[5] && sites[5].is_up[1]);
    tcp_send(sites[5].tcp, 1, &msg);
    SITE_UNTIL(sites[1].downs[5] == 1);
    assert_string_equal(sites[1].down,
                        "the peer is no member, and sent a message for members only");
    SITE_UNTIL(sites[1].is_up[5]);
    site_set_list(1, (const uint32_t[]){5, 0});
    tcp_send(sites[5].tcp, 1, &msg);
    sites[1].heard[5] = 0;
    SITE_UNTIL(sites[1].heard[5] > 5);
    assert_int_equal(sites[1].downs[5], 1);
}

/* Ids come and go: no slot is kept. */
TEST(places_are_given_back, sites_set_up, sites_tear_down)
{
    start_member();
    for (uint32_t round = 0; round < 30; round++) {
        uint32_t id = 2 + round % 12;

        start_joiner(id);
        SITE_UNTIL(sites[1].is_up[id]);
        site_stop(id);
        SITE_UNTIL(!sites[1].is_up[id]);
        site_turn_all();
        assert_int_equal(sites[1].tcp->used, 0);
    }
}
