/*
 * level.h - the feature levels. A form of a record, a message or a local file that an older release
 * does not read belongs to a level, and is used only once the committed configuration has that
 * level. The leader raises it when the releases of all members know it; it never falls.
 */
#ifndef ZAB_LEVEL_H
#define ZAB_LEVEL_H

enum {
    /* Configurations of format 3. */
    ZAB_LEVEL_FIRST = 0,
    /* Configurations of format 4, which have the level and the hold. */
    ZAB_LEVEL_CONFIG = 1,
    /* Changes of the members; their texts in the configuration, and ZooKeeper's form in
     * /zookeeper/config. */
    ZAB_LEVEL_TEXTS = 2,

    /* The highest level that this release knows: it uses no form of a higher one. */
    ZAB_LEVEL_KNOWN = ZAB_LEVEL_TEXTS
};

#endif
