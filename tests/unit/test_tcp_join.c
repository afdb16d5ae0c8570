/* Replicas that know addresses, and no ids: they find out which one answers. */
#include "tests/unit/tcp_site_kit.h"

static const uint32_t none[] = {0};

/* Starts replica 1 and 2, which have each other in their lists. */
static void start_two(void)
{
    site_start(&(struct site_setup){.id = 1, .listed = {2}, .outsiders_max = 8, .level = 2});
    site_start(&(struct site_setup){.id = 2, .listed = {1}, .outsiders_max = 8, .level = 2});
    SITE_UNTIL(sites[1].is_up[2] && sites[2].is_up[1]);
}

static void start_joiner(uint32_t id)
{
    site_start(&(struct site_setup){.id = id, .outsiders_max = 8, .level = 1});
}

/* Each address leads to a replica with an unknown id; the ids may be larger or smaller. */
static void expect_join(uint32_t id)
{
    site_join(id, (const uint32_t[]){1, 2, 0});
    SITE_UNTIL(sites[id].is_up[1] && sites[id].is_up[2] && sites[1].is_up[id] &&
               sites[2].is_up[id]);
    assert_true(sites[id].is_outsider[1] && sites[1].is_outsider[id]);
    assert_false(sites[1].is_outsider[2]);
    assert_int_equal(sites[id].levels[1], 2);
    assert_int_equal(sites[1].levels[id], 1);
    SITE_UNTIL(tcp_join_reached_ms(sites[id].tcp) != 0 && sites[id].joins >= 2);
    assert_string_equal(sites[id].joining, "");
}

TEST(a_replica_finds_out_which_one_answers, sites_set_up, sites_tear_down)
{
    uint64_t at_ms = 0;

    start_two();
    start_joiner(9);
    assert_int_equal(tcp_join_reached_ms(sites[9].tcp), 0);
    expect_join(9);
    at_ms = tcp_join_reached_ms(sites[9].tcp);
    SITE_UNTIL(tcp_join_reached_ms(sites[9].tcp) > at_ms); /* It looks again. */
    assert_int_equal(sites[9].ups[1] + sites[9].ups[2], 2);
    assert_int_equal(sites[1].ups[9] + sites[2].ups[9], 2);
    assert_int_equal(sites[1].refusals + sites[2].refusals + sites[9].refusals, 0);
}

TEST(messages_pass_between_the_two, sites_set_up, sites_tear_down)
{
    start_two();
    start_joiner(9);
    expect_join(9);
    SITE_UNTIL(sites[9].heard[1] > 3 && sites[1].heard[9] > 3);
}

TEST(a_replica_with_a_small_id_joins, sites_set_up, sites_tear_down)
{
    site_start(&(struct site_setup){.id = 7, .outsiders_max = 8});
    site_start(&(struct site_setup){.id = 1, .outsiders_max = 8});
    site_join(1, (const uint32_t[]){7, 0});
    SITE_UNTIL(sites[1].is_up[7] && sites[7].is_up[1]);
}

/* A name stands for all its addresses; no process listens at some of them. */
TEST(a_name_counts_with_all_its_addresses, sites_set_up, sites_tear_down)
{
    struct tcp_address address = {.host = "localhost"};

    start_two();
    start_joiner(9);
    address.port = sites[1].port;
    tcp_set_join(sites[9].tcp, &address, 1);
    SITE_UNTIL(sites[9].is_up[1]);
    address.port = sites[2].port; /* Only this one. */
    tcp_set_join(sites[9].tcp, &address, 1);
    SITE_UNTIL(sites[9].is_up[2]);
    assert_true(sites[9].is_up[1]); /* The connection stays. */
}

TEST(a_name_without_an_address_is_told, sites_set_up, sites_tear_down)
{
    struct tcp_address address = {.port = 1};

    memset(address.host, 'a', 101); /* No host can have this name. */
    start_joiner(9);
    tcp_set_join(sites[9].tcp, &address, 1);
    SITE_UNTIL(sites[9].joins > 0);
    assert_string_equal(sites[9].joining, "the name has no address");
    assert_int_equal(tcp_join_reached_ms(sites[9].tcp), 0);
}

/* The reason is reported once, and again when it changes. */
TEST(an_address_without_a_process_is_reported_once, sites_set_up, sites_tear_down)
{
    start_joiner(9);
    sites[1].port = port_free();
    site_join(9, (const uint32_t[]){1, 0});
    SITE_UNTIL(sites[9].joins > 0);
    assert_string_equal(sites[9].joining, "no process listens there");
    site_run_for(300);
    assert_int_equal(sites[9].joins, 1);
    site_start(&(struct site_setup){.id = 1, .outsiders_max = 8});
    SITE_UNTIL(sites[9].is_up[1] && sites[9].joins == 2);
    assert_string_equal(sites[9].joining, "");
}

TEST(dialing_stops_when_told, sites_set_up, sites_tear_down)
{
    start_two();
    start_joiner(9);
    expect_join(9);
    site_join(9, none);
    site_turn_all();
    assert_int_equal(tcp_join_reached_ms(sites[9].tcp), 0);
    tcp_disconnect(sites[9].tcp, 1);
    SITE_UNTIL(!sites[1].is_up[9]);
    site_run_for(300);
    assert_false(sites[9].is_up[1]);
    assert_true(sites[9].is_up[2]);
    assert_true(tcp_tick(sites[9].tcp, os_now_ms()) == UINT64_MAX);
    site_join(9, (const uint32_t[]){1, 2, 0});
    SITE_UNTIL(sites[9].is_up[1]);
}

/* It ends the attempt that is under way, at whatever stage. */
TEST(an_attempt_ends_when_told, sites_set_up, sites_tear_down)
{
    start_two();
    start_joiner(9);
    for (int turns = 0; turns < 12; turns++) {
        site_join(9, (const uint32_t[]){1, 2, 0});
        for (int i = 0; i < turns; i++) {
            site_turn_all();
        }
        site_join(9, none);
        assert_int_equal(sites[9].tcp->joins, 0);
        assert_int_equal(sites[9].tcp->shaking_count, 0);
        tcp_disconnect(sites[9].tcp, 1);
        tcp_disconnect(sites[9].tcp, 2);
        SITE_UNTIL(!sites[1].is_up[9] && !sites[2].is_up[9] && !sites[9].is_up[1] &&
                   !sites[9].is_up[2]);
    }
    expect_join(9);
}

TEST(a_connection_that_has_ended_comes_back, sites_set_up, sites_tear_down)
{
    start_two();
    start_joiner(9);
    expect_join(9);
    site_stop(1);
    SITE_UNTIL(!sites[9].is_up[1]);
    site_start(&(struct site_setup){.id = 1, .listed = {2}, .outsiders_max = 8});
    SITE_UNTIL(sites[9].is_up[1] && sites[1].is_up[9]);
}

/* A list of addresses that all replicas have in their files names this one, too. */
TEST(the_own_address_is_passed_over, sites_set_up, sites_tear_down)
{
    start_two();
    start_joiner(9);
    site_join(9, (const uint32_t[]){9, 1, 0});
    SITE_UNTIL(sites[9].is_up[1] && tcp_join_reached_ms(sites[9].tcp) != 0);
    assert_int_equal(sites[9].refusals, 0);
    assert_int_equal(sites[9].ups[9], 0);
    assert_string_equal(sites[9].joining, "");
}

TEST(another_process_with_the_own_id_is_told, sites_set_up, sites_tear_down)
{
    site_start(&(struct site_setup){.id = 9, .slot = 3, .outsiders_max = 8});
    start_joiner(9);
    site_join(9, (const uint32_t[]){3, 0});
    SITE_UNTIL(sites[9].joins > 0 && sites[3].refusals > 0);
    assert_non_null(strstr(sites[9].joining, "another process with the id of this replica"));
    assert_non_null(strstr(sites[3].why, "another process with the id of this replica (9)"));
    assert_int_equal(sites[9].ups[9] + sites[3].ups[9], 0);
}

/* Two addresses of one process give one connection. */
TEST(two_addresses_of_one_replica_give_one_connection, sites_set_up, sites_tear_down)
{
    struct tcp_address addresses[2] = {{.host = "127.0.0.1"}, {.host = "localhost"}};

    start_two();
    start_joiner(9);
    addresses[0].port = addresses[1].port = sites[1].port;
    tcp_set_join(sites[9].tcp, addresses, 2);
    SITE_UNTIL(sites[9].is_up[1]);
    site_run_for(300);
    assert_int_equal(sites[9].ups[1], 1);
    assert_int_equal(sites[1].ups[9], 1);
}

/* Founders that know each other's addresses only dial at the same time. */
TEST(two_that_dial_each_other_keep_one_connection, sites_set_up, sites_tear_down)
{
    for (int round = 0; round < 20; round++) {
        site_start(&(struct site_setup){.id = 1, .outsiders_max = 8});
        site_start(&(struct site_setup){.id = 2, .outsiders_max = 8});
        site_join(1, (const uint32_t[]){1, 2, 0});
        site_join(2, (const uint32_t[]){1, 2, 0});
        SITE_UNTIL(sites[1].is_up[2] && sites[2].is_up[1]);
        site_run_for(20);
        assert_int_equal(sites[1].downs[2] + sites[2].downs[1], 0);
        site_stop(1);
        site_stop(2);
    }
}

/* A member looks for the others at addresses, whatever their ids are: each is in the other's list,
 * without an address. */
TEST(a_member_may_ask_any_replica, sites_set_up, sites_tear_down)
{
    site_start(&(struct site_setup){.id = 1, .listed = {3}});
    site_start(&(struct site_setup){.id = 3, .listed = {1}});
    site_set_list(3, (const uint32_t[]){1, 0});
    tcp_set_peers(sites[3].tcp, &(struct tcp_peer){.id = 1}, 1);
    tcp_set_peers(sites[1].tcp, &(struct tcp_peer){.id = 3}, 1);
    site_join(1, (const uint32_t[]){3, 0});
    SITE_UNTIL(sites[1].is_up[3] && sites[3].is_up[1]);
    assert_false(sites[1].is_outsider[3] || sites[3].is_outsider[1]);
}

/* It has a place for the members only. */
TEST(without_places_a_list_is_needed, sites_set_up, sites_tear_down)
{
    site_start(&(struct site_setup){.id = 1, .listed = {2}});
    start_joiner(9);
    site_join(9, (const uint32_t[]){1, 0});
    SITE_UNTIL(sites[1].refusals > 0 && sites[9].joins > 0);
    assert_non_null(strstr(sites[1].why, "replica 9 connects, but is not in the server list"));
    assert_non_null(strstr(sites[9].joining, "the replica there ends the handshake"));
}

TEST(the_levels_are_compared, sites_set_up, sites_tear_down)
{
    site_start(&(struct site_setup){.id = 1, .outsiders_max = 8, .level = 2, .ensemble_level = 2});
    start_joiner(9);
    site_join(9, (const uint32_t[]){1, 0});
    SITE_UNTIL(sites[9].joins > 0 && sites[1].refusals > 0);
    assert_non_null(strstr(sites[1].why, "replica 9 supports feature levels up to 1"));
    assert_non_null(strstr(sites[9].joining, "this replica supports feature levels up to 1"));
    assert_int_equal(site_outsiders(1), 0);
}

TEST(a_wrong_secret_is_told, sites_set_up, sites_tear_down)
{
    site_start(&(struct site_setup){.id = 1, .outsiders_max = 8});
    site_start(&(struct site_setup){.id = 9, .outsiders_max = 8, .secret = "something else"});
    site_join(9, (const uint32_t[]){1, 0});
    SITE_UNTIL(sites[9].joins > 0 && sites[1].refusals > 0);
    assert_non_null(strstr(sites[1].why, "the secret of the peer differs"));
    assert_int_equal(site_outsiders(1), 0);
    assert_int_equal(outsiders_count(sites[1].tcp), 0);
}

/* Without a proof no address beyond this host is dialed, from wherever it was learned. */
TEST(an_address_beyond_loopback_needs_a_proof, sites_set_up, sites_tear_down)
{
    struct tcp_address address = {.host = "192.0.2.1", .port = 9};
    struct tcp_peer peer = {.id = 1, .host = "192.0.2.1", .port = 9};

    if (kit_sealed()) {
        return; /* TLS has a proof. */
    }
    site_start(&(struct site_setup){.id = 9, .outsiders_max = 8, .secret = ""});
    tcp_set_join(sites[9].tcp, &address, 1);
    SITE_UNTIL(sites[9].joins > 0);
    assert_non_null(strstr(sites[9].joining, "the address is beyond loopback"));
    tcp_set_join(sites[9].tcp, NULL, 0);
    tcp_set_peers(sites[9].tcp, &peer, 1);
    SITE_UNTIL(sites[9].refusals > 0);
    assert_non_null(strstr(sites[9].why, "the address is beyond loopback"));
    assert_int_equal(sites[9].tcp->shaking_count, 0);
}
