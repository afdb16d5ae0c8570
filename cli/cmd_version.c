/* version: which program this is. With --verbose, how it was built, and the libraries it finds. */
#include "web/assets.h"

#include "base/crc32c.h"
#include "cli/build.h"
#include "cli/cli.h"
#include "cli/libcurl.h"
#include "zab/level.h"
#include "zab/tcp/frame.h"

#include <curl/curl.h>
#include <ev.h>
#include <gnu/libc-version.h>
#include <histedit.h>
#include <libwebsockets.h>
#include <microhttpd.h>
#include <openssl/crypto.h>

enum {
    TEXT_MAX = 64
};

#define WORD(token)     #token
#define NUMBER(token)   WORD(token)
#define DOTTED(a, b)    NUMBER(a) "." NUMBER(b)
#define LIBEDIT_VERSION DOTTED(LIBEDIT_MAJOR, LIBEDIT_MINOR)

/* The version without what follows a blank or a dash: lws appends its commit. */
static json_t *short_version(const char *text)
{
    return json_stringn(text, strcspn(text, " -"));
}

/* `loaded` belongs to the list afterwards. */
static void add_library(json_t *list, const char *name, const char *built, json_t *loaded)
{
    (void)json_array_append_new(list, json_pack("{s:s,s:o,s:o}", "name", name, "built",
                                                short_version(built), "loaded", loaded));
}

/* libcurl is loaded for it; null: it is missing. */
static json_t *loaded_libcurl(void)
{
    return libcurl_load() ? json_null()
                          : short_version(curl_version_info(CURLVERSION_NOW)->version);
}

static json_t *libraries(void)
{
    json_t *list = json_array();
    char ev[TEXT_MAX];
    char mhd[TEXT_MAX];

    (void)snprintf(ev, sizeof(ev), "%d.%d", ev_version_major(), ev_version_minor());
    (void)snprintf(mhd, sizeof(mhd), "%x.%x.%x", (unsigned)MHD_VERSION >> 24,
                   (unsigned)MHD_VERSION >> 16 & 0xff, (unsigned)MHD_VERSION >> 8 & 0xff);
    add_library(list, "glibc", DOTTED(__GLIBC__, __GLIBC_MINOR__),
                short_version(gnu_get_libc_version()));
    add_library(list, "openssl", OPENSSL_VERSION_STR,
                short_version(OpenSSL_version(OPENSSL_VERSION_STRING)));
    add_library(list, "libmicrohttpd", mhd, short_version(MHD_get_version()));
    add_library(list, "libwebsockets", LWS_LIBRARY_VERSION,
                short_version(lws_get_library_version()));
    add_library(list, "libev", DOTTED(EV_VERSION_MAJOR, EV_VERSION_MINOR), short_version(ev));
    add_library(list, "jansson", JANSSON_VERSION, short_version(jansson_version_str()));
    add_library(list, "libcurl", LIBCURL_VERSION, loaded_libcurl());
    add_library(list, "libedit", LIBEDIT_VERSION, json_null()); /* It does not say. */
    return list;
}

static json_t *features(void)
{
    json_t *list = json_array();

    if (asset_find(slice_str(ASSET_PAGE))) {
        (void)json_array_append_new(list, json_string("dashboard"));
    }
    if (crc32c_has_hardware()) {
        (void)json_array_append_new(list, json_string("crc32c-instruction"));
    }
    return list;
}

static json_t *describe(void)
{
    json_t *value = json_pack("{s:s,s:s,s:b}", "version", ZABRA_VERSION, "commit", build_commit,
                              "modified", build_modified);

    if (build_commit_s) {
        (void)json_object_set_new(value, "commit_time", json_integer(build_commit_s));
    }
    (void)json_object_set_new(value, "build",
                              json_pack("{s:s,s:s,s:s,s:s}", "type", ZABRA_BUILD_TYPE, "sanitizers",
                                        ZABRA_SANITIZERS, "compiler", ZABRA_COMPILER, "processor",
                                        ZABRA_PROCESSOR));
    (void)json_object_set_new(value, "feature_level", json_integer(ZAB_LEVEL_KNOWN));
    (void)json_object_set_new(
        value, "peer_protocol",
        json_pack("{s:i,s:i}", "oldest", PROTOCOL_VERSION_OLDEST, "newest", PROTOCOL_VERSION));
    (void)json_object_set_new(value, "features", features());
    (void)json_object_set_new(value, "libraries", libraries());
    return value;
}

static void print_build(const json_t *value)
{
    const json_t *feature = NULL;
    size_t i = 0;

    (void)printf("zabra %s\n", ZABRA_VERSION);
    (void)printf("commit         %s%s\n", build_commit, build_modified ? ", modified" : "");
    (void)printf("build          %s%s%s, %s, %s\n", ZABRA_BUILD_TYPE, *ZABRA_SANITIZERS ? ", " : "",
                 ZABRA_SANITIZERS, ZABRA_COMPILER, ZABRA_PROCESSOR);
    (void)printf("feature level  %d\n", ZAB_LEVEL_KNOWN);
    (void)printf("peer protocol  %d to %d\n", PROTOCOL_VERSION_OLDEST, PROTOCOL_VERSION);
    (void)printf("features      ");
    json_array_foreach(json_object_get(value, "features"), i, feature)
    {
        (void)printf(" %s", json_string_value(feature));
    }
    (void)printf("\n\n");
}

static int run(int arg_count, char **args)
{
    struct out out = {.cmd = "version", .format = settings_format(&arg_count, args, true)};
    bool verbose =
        arg_count > 0 && (strcmp(args[0], "--verbose") == 0 || strcmp(args[0], "-v") == 0);

    if (arg_count > (verbose ? 1 : 0)) {
        return out_usage(&out, "\"%s\" is not understood", args[verbose ? 1 : 0]);
    }

    json_auto_t *value = verbose ? describe() : json_pack("{s:s}", "version", ZABRA_VERSION);

    if (out_is_json(&out)) {
        out_json(&out, value);
    } else if (verbose) {
        print_build(value);
        out_table(&out, value, "libraries", "LIBRARY:name, BUILT WITH:built, LOADED:loaded");
    } else {
        (void)printf("zabra %s\n", ZABRA_VERSION);
    }
    return CMD_OK;
}

const struct cmd cmd_version = {
    .name = "version",
    .summary = "print the version",
    .usage = "[--verbose]",
    .text =
        "With --verbose also the commit, how the program was built, the feature level and the\n"
        "versions of the protocol between replicas that it knows, and each library: the version\n"
        "it was built with, and the one that is loaded now. libcurl is loaded for that.\n",
    .options = {CMD_FLAG("verbose", 'v', "also the commit, the build and the libraries")},
    .examples = {{"zabra version --verbose -o json", "for a bug report"}},
    .run_alone = run,
};
