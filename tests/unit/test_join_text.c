/* The command that adds a waiting replica: other replicas choose its words. */
#include "server/process/join_text.h"
#include "tests/lib/unit.h"

#include <string.h>

static void expect(const struct join_command *command, const char *text)
{
    char said[200];

    assert_true(join_command_text(command, said, sizeof said));
    assert_string_equal(said, text);
}

TEST(the_command_has_what_is_known)
{
    expect(&(struct join_command){.id = 4, .address = "zk4:10998", .zone = "", .endpoint = ""},
           "zabra members add 4 zk4:10998");
    expect(
        &(struct join_command){
            .id = 65535, .address = "10.0.0.4:10998", .zone = "rack-4", .endpoint = "zk1:9998"},
        "zabra members add 65535 10.0.0.4:10998 --zone rack-4 --endpoints http://zk1:9998");
    expect(
        &(struct join_command){
            .id = 4, .address = "zk4:1", .zone = "", .endpoint = "zk1:9998", .https = true},
        "zabra members add 4 zk4:1 --endpoints https://zk1:9998");
}

TEST(words_with_a_meaning_for_the_shell_are_quoted)
{
    expect(
        &(struct join_command){
            .id = 4, .address = "[::1]:1", .zone = "a';rm${IFS}-rf", .endpoint = "$(id):9"},
        "zabra members add 4 '[::1]:1' --zone 'a'\\'';rm${IFS}-rf' --endpoints "
        "'http://$(id):9'");
}

TEST(a_command_that_does_not_fit_is_none)
{
    const struct join_command command = {
        .id = 4, .address = "zk4:10998", .zone = "", .endpoint = ""};
    char text[sizeof "zabra members add 4 zk4:10998"];

    assert_true(join_command_text(&command, text, sizeof text));
    assert_false(join_command_text(&command, text, sizeof text - 1));
    assert_string_equal(text, "");
}
