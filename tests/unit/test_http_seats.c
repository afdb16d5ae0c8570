/* Which connection is closed when all seats for probes are taken. */
#include "http/seats.h"
#include "tests/lib/unit.h"

enum {
    SEATS = 64,
    ATTACKER = 1,
    PROBE = 2
};

static struct seats seats;
static struct seats_entry flood[SEATS];
static struct seats_entry one;

static void begin(void)
{
    seats_init(&seats);
}

static void end(void)
{
    while (seats.count > 0) {
        seats_leave(&seats, seats_weakest(&seats));
    }
    seats_release(&seats);
    memset(flood, 0, sizeof(flood));
    memset(&one, 0, sizeof(one));
}

/* A connection of the attacker takes the seat of the entry that has to go. */
static struct seats_entry *displace(uint64_t address_key)
{
    struct seats_entry *weakest = seats_weakest(&seats);

    seats_leave(&seats, weakest);
    if (weakest != &one) {
        seats_take(&seats, weakest, address_key);
    }
    return weakest;
}

TEST(a_flood_closes_no_connection_of_another_address, begin, end)
{
    seats_take(&seats, &one, PROBE);
    one.stage = SEATS_BEGUN;
    for (int i = 0; i < SEATS - 1; i++) {
        seats_take(&seats, &flood[i], ATTACKER);
    }
    for (int i = 0; i < 10 * SEATS; i++) {
        assert_ptr_not_equal(displace(ATTACKER), &one);
    }
}

TEST(many_addresses_close_the_oldest_connection, begin, end)
{
    for (int i = 0; i < SEATS; i++) {
        seats_take(&seats, &flood[i], 100 + (uint64_t)i);
    }
    for (int i = 0; i < SEATS; i++) {
        assert_ptr_equal(displace(1000 + (uint64_t)i), &flood[i]);
    }
}

TEST(a_begun_request_gives_way_before_a_silent_connection, begin, end)
{
    seats_take(&seats, &one, ATTACKER);
    for (int i = 0; i < SEATS - 1; i++) {
        seats_take(&seats, &flood[i], ATTACKER);
        flood[i].stage = i < 4 ? SEATS_SILENT : i < 8 ? SEATS_BEGUN : SEATS_ANSWERED;
    }
    for (int i = 8; i < SEATS - 1; i++) {
        assert_ptr_equal(seats_weakest(&seats), &flood[i]);
        seats_leave(&seats, &flood[i]);
    }
    for (int i = 4; i < 8; i++) {
        assert_ptr_equal(seats_weakest(&seats), &flood[i]);
        seats_leave(&seats, &flood[i]);
    }
    assert_ptr_equal(seats_weakest(&seats), &one);
}

TEST(seats_are_counted_for_each_address, begin, end)
{
    seats_take(&seats, &one, PROBE);
    seats_take(&seats, &flood[0], ATTACKER);
    seats_take(&seats, &flood[1], ATTACKER);
    assert_int_equal(seats.count, 3);
    assert_int_equal(map_count(&seats.counts), 2);
    seats_leave(&seats, &flood[0]);
    seats_leave(&seats, &flood[1]);
    assert_int_equal(seats.count, 1);
    assert_int_equal(map_count(&seats.counts), 1);
    assert_ptr_equal(seats_weakest(&seats), &one);
}
