/* config_text.h - the replicated configuration as text: the data of /zookeeper/config. */
#ifndef SERVER_CONFIG_TEXT_H
#define SERVER_CONFIG_TEXT_H

#include "base/buf.h"
#include "zab/config.h"

/* One line per member, as in ZooKeeper, and the version last. It is part of the replicated state:
 * the same configuration must give the same bytes in every release. */
void config_text(const struct zab_config *config, struct buf *out);

#endif
