/*
 * Replicas that are no members. One that knows no configuration with its id asks others for theirs
 * (JOIN), and waits to be added; what it learns is a hint and counts for no quorum. The others
 * know it as an outsider: it gets the configuration, and nothing else that it says counts.
 */
#include "zab/zab_int.h"

static struct zab_texts texts_of(const struct join_word *word)
{
    return (struct zab_texts){.port = word->port,
                              .host = slice_make(word->host, word->host_len),
                              .client = slice_make(word->client, word->client_len),
                              .zone = slice_make(word->zone, word->zone_len)};
}

size_t zab_waiting(const struct zab *zab, struct zab_waiting *out, size_t out_max)
{
    size_t count = 0;

    for_each_peer (peer, zab) {
        if (peer->is_outsider && peer->word.is_said && count < out_max) {
            out[count++] = (struct zab_waiting){.id = peer->id,
                                                .incarnation = peer->incarnation,
                                                .level = peer->level,
                                                .texts = texts_of(&peer->word),
                                                .since_ms = peer->word.since_ms,
                                                .fault = peer->word.fault};
        }
    }
    return count;
}
