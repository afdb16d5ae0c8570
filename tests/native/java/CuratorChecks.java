/* Curator's recipes. CuratorChecks [CHECK...]; servers by SERVERS and CONTROL, see servers.py. */
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

public final class CuratorChecks {
    private static final int WAIT_S = 30;
    private static final int SESSION_MS = 15000;
    private static final int CONNECT_MS = 10000;
    private static final int RETRIES = 100;
    private static final int RETRY_MS = 100;
    private static final int POLL_MS = 20;

    private static final List<CuratorFramework> CLIENTS = new ArrayList<>();
    private static final ExecutorService POOL = Executors.newCachedThreadPool();
    private static String root;
    private static CuratorFramework zk;

    private interface Check {
        void run() throws Exception;
    }

    private static CuratorFramework client() throws Exception {
        CuratorFramework made = CuratorFrameworkFactory.builder()
            .connectString(System.getenv("SERVERS"))
            .sessionTimeoutMs(SESSION_MS)
            .connectionTimeoutMs(CONNECT_MS)
            .retryPolicy(new RetryNTimes(RETRIES, RETRY_MS))
            .build();
        made.start();
        CLIENTS.add(made);
        check(made.blockUntilConnected(WAIT_S, TimeUnit.SECONDS), "no connection");
        return made;
    }

    private static void check(boolean held, String what) {
        if (!held) {
            throw new AssertionError(what);
        }
    }

    private static void equal(Object got, Object wanted) {
        check(wanted.equals(got), got + " instead of " + wanted);
    }

    private static void until(Callable<Boolean> condition, String what) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
        while (!condition.call()) {
            check(System.nanoTime() < end, "not in time: " + what);
            Thread.sleep(POLL_MS);
        }
    }

    private static <T> T value(Future<T> future) throws Exception {
        return future.get(WAIT_S, TimeUnit.SECONDS);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] raw) {
        return new String(raw, StandardCharsets.UTF_8);
    }

    private static int port(CuratorFramework client) throws Exception {
        String text = client.getZookeeperClient().getZooKeeper().toString();
        String remote = text.replaceAll("(?s).*remoteserver:\\S*?:(\\d+).*", "$1");
        return Integer.parseInt(remote);
    }

    private static void kill(int port) throws IOException {
        try (Socket socket = new Socket("127.0.0.1", Integer.parseInt(System.getenv("CONTROL")))) {
            PrintStream out = new PrintStream(socket.getOutputStream(), true, "UTF-8");
            out.print("kill " + port + "\n");
            out.flush();
            InputStream in = socket.getInputStream();
            equal(in.read(), (int) 'o');
        }
    }

    /* ---- Operations ---- */

    private static void operations() throws Exception {
        String path = root + "/a/b";
        zk.create().creatingParentContainersIfNeeded().forPath(path, bytes("1"));
        equal(text(zk.getData().forPath(path)), "1");
        equal(zk.setData().withVersion(0).forPath(path, bytes("2")).getVersion(), 1);
        try {
            zk.setData().withVersion(0).forPath(path, bytes("3"));
            check(false, "a wrong version was taken");
        } catch (KeeperException.BadVersionException expected) {
            equal(expected.getPath(), path);
        }
        String made = zk.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
            .forPath(root + "/p-", bytes("x"));
        check(made.startsWith(root + "/_c_") && made.endsWith("p-0000000001"), made);
        zk.create().withTtl(100000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath(root + "/ttl");
        equal(zk.checkExists().forPath(root + "/ttl").getEphemeralOwner(), 0L);
        equal(zk.create().orSetData().forPath(path, bytes("4")), path);
        equal(zk.getZookeeperClient().getZooKeeper().getAllChildrenNumber(root), 4);
        equal(zk.getZookeeperClient().getZooKeeper().getEphemerals(root),
              Collections.singletonList(made));
        equal(zk.getZookeeperClient().getZooKeeper().whoAmI().get(0).getAuthScheme(), "ip");
        zk.delete().guaranteed().deletingChildrenIfNeeded().forPath(root + "/a");
        check(zk.checkExists().forPath(path) == null, "still there");
    }

    private static void transactions() throws Exception {
        CuratorOp make = zk.transactionOp().create().forPath(root + "/t", bytes("1"));
        CuratorOp set = zk.transactionOp().setData().forPath(root + "/t", bytes("2"));
        CuratorOp held = zk.transactionOp().check().withVersion(1).forPath(root + "/t");
        List<CuratorTransactionResult> results = zk.transaction().forOperations(make, set, held);
        equal(results.size(), 3);
        equal(results.get(0).getResultPath(), root + "/t");
        equal(results.get(1).getResultStat().getVersion(), 1);
        try {
            zk.transaction().forOperations(zk.transactionOp().delete().forPath(root + "/t"),
                                           zk.transactionOp().delete().forPath(root + "/none"));
            check(false, "a failed transaction was taken");
        } catch (KeeperException.NoNodeException expected) {
            equal(expected.getResults().size(), 2);
        }
        check(zk.checkExists().forPath(root + "/t") != null, "half a transaction");
    }

    private static void watches() throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        org.apache.zookeeper.ZooKeeper raw = zk.getZookeeperClient().getZooKeeper();
        org.apache.zookeeper.Watcher watcher = event -> seen.add(event.getType() + event.getPath());
        raw.addWatch(root, watcher, AddWatchMode.PERSISTENT_RECURSIVE);
        zk.create().forPath(root + "/w");
        zk.setData().forPath(root + "/w", bytes("2"));
        zk.delete().forPath(root + "/w");
        for (String wanted : Arrays.asList("NodeCreated", "NodeDataChanged", "NodeDeleted")) {
            equal(seen.poll(WAIT_S, TimeUnit.SECONDS), wanted + root + "/w");
        }
        raw.removeWatches(root, watcher, org.apache.zookeeper.Watcher.WatcherType.Any, false);
        equal(seen.poll(WAIT_S, TimeUnit.SECONDS), "PersistentWatchRemoved" + root);
        try {
            raw.removeWatches(root, watcher, org.apache.zookeeper.Watcher.WatcherType.Any, false);
            check(false, "a watch was removed twice");
        } catch (KeeperException.NoWatcherException expected) {
            equal(expected.getPath(), root);
        }
    }

    /* ---- Recipes ---- */

    private static void mutex() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        List<Future<Integer>> workers = new ArrayList<>();
        for (int n = 0; n < 4; n++) {
            InterProcessMutex mutex = new InterProcessMutex(client(), root + "/mutex");
            workers.add(POOL.submit(() -> {
                for (int round = 0; round < 10; round++) {
                    check(mutex.acquire(WAIT_S, TimeUnit.SECONDS), "no lock");
                    most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                    Thread.sleep(1);
                    inside.decrementAndGet();
                    mutex.release();
                }
                return 0;
            }));
        }
        for (Future<Integer> worker : workers) {
            value(worker);
        }
        equal(most.get(), 1);
    }

    private static void otherLocks() throws Exception {
        InterProcessReadWriteLock one = new InterProcessReadWriteLock(zk, root + "/rw");
        InterProcessReadWriteLock two = new InterProcessReadWriteLock(client(), root + "/rw");
        check(one.readLock().acquire(WAIT_S, TimeUnit.SECONDS), "no read lock");
        check(two.readLock().acquire(WAIT_S, TimeUnit.SECONDS), "no second read lock");
        two.readLock().release();
        check(!two.writeLock().acquire(200, TimeUnit.MILLISECONDS), "a writer beside a reader");
        one.readLock().release();
        check(two.writeLock().acquire(WAIT_S, TimeUnit.SECONDS), "no write lock");
        check(!one.readLock().acquire(200, TimeUnit.MILLISECONDS), "a reader beside a writer");
        two.writeLock().release();

        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(zk, root + "/sem", 2);
        Lease first = semaphore.acquire(WAIT_S, TimeUnit.SECONDS);
        check(first != null && semaphore.acquire(WAIT_S, TimeUnit.SECONDS) != null, "no leases");
        check(semaphore.acquire(200, TimeUnit.MILLISECONDS) == null, "a third lease");
        semaphore.returnLease(first);
        check(semaphore.acquire(WAIT_S, TimeUnit.SECONDS) != null, "the lease did not come back");

        InterProcessMultiLock both =
            new InterProcessMultiLock(zk, Arrays.asList(root + "/m1", root + "/m2"));
        check(both.acquire(WAIT_S, TimeUnit.SECONDS), "no locks");
        both.release();
    }

    private static void leaderLatch() throws Exception {
        LeaderLatch one = new LeaderLatch(zk, root + "/latch", "one");
        LeaderLatch two = new LeaderLatch(client(), root + "/latch", "two");
        one.start();
        check(one.await(WAIT_S, TimeUnit.SECONDS), "no leader");
        two.start();
        until(() -> two.getParticipants().size() == 2, "two take part");
        equal(two.getLeader().getId(), "one");
        check(!two.hasLeadership(), "two leaders");
        one.close();
        check(two.await(WAIT_S, TimeUnit.SECONDS), "no second leader");
        two.close();
    }

    private static void leaderSelector() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        CountDownLatch led = new CountDownLatch(6);
        List<LeaderSelector> selectors = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            LeaderSelector one = new LeaderSelector(client(), root + "/sel",
                new LeaderSelectorListenerAdapter() {
                    @Override
                    public void takeLeadership(CuratorFramework at) throws Exception {
                        check(inside.incrementAndGet() == 1, "two leaders");
                        Thread.sleep(5);
                        inside.decrementAndGet();
                        led.countDown();
                    }
                });
            one.autoRequeue();
            one.start();
            selectors.add(one);
        }
        check(led.await(WAIT_S, TimeUnit.SECONDS), "too few leaders");
        selectors.forEach(LeaderSelector::close);
    }

    private static void queues() throws Exception {
        SimpleDistributedQueue simple = new SimpleDistributedQueue(zk, root + "/simple");
        for (int n = 0; n < 10; n++) {
            simple.offer(bytes("v" + n));
        }
        SimpleDistributedQueue other = new SimpleDistributedQueue(client(), root + "/simple");
        zk.sync().forPath(root);
        for (int n = 0; n < 10; n++) {
            equal(text(simple.take()), "v" + n);
        }
        Future<byte[]> late = POOL.submit(() -> other.poll(WAIT_S, TimeUnit.SECONDS));
        simple.offer(bytes("late"));
        equal(text(value(late)), "late");

        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        QueueSerializer<String> texts = new QueueSerializer<String>() {
            @Override
            public byte[] serialize(String item) {
                return bytes(item);
            }

            @Override
            public String deserialize(byte[] raw) {
                return text(raw);
            }
        };
        QueueConsumer<String> consumer = new QueueConsumer<String>() {
            @Override
            public void consumeMessage(String message) {
                got.add(message);
            }

            @Override
            public void stateChanged(CuratorFramework at, ConnectionState state) {
            }
        };
        try (DistributedQueue<String> queue =
                 QueueBuilder.builder(zk, consumer, texts, root + "/dq").lockPath(root + "/dql")
                     .buildQueue();
             DistributedQueue<String> second =
                 QueueBuilder.builder(client(), consumer, texts, root + "/dq")
                     .lockPath(root + "/dql").buildQueue()) {
            queue.start();
            second.start();
            for (int n = 0; n < 20; n++) {
                queue.put("m" + n);
            }
            until(() -> got.size() >= 20, "all messages");
            equal(new HashSet<>(got).size(), 20);
        }
    }

    private static void caches() throws Exception {
        CuratorFramework other = client();
        zk.create().creatingParentsIfNeeded().forPath(root + "/c/a", bytes("1"));
        zk.sync().forPath(root);
        PathChildrenCache children = new PathChildrenCache(zk, root + "/c", true);
        children.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
        TreeCache tree = new TreeCache(zk, root + "/c");
        tree.start();
        NodeCache node = new NodeCache(zk, root + "/c/a");
        node.start(true);
        /* At ZooKeeper 3.8 a persistent watch of a connection replaces its one-shot on a path. */
        CuratorCache cache = CuratorCache.build(client(), root + "/c");
        cache.start();
        equal(children.getCurrentData().size(), 1);
        for (int n = 0; n < 20; n++) {
            other.create().forPath(root + "/c/n" + n, bytes("" + n));
        }
        other.setData().forPath(root + "/c/a", bytes("2"));
        other.delete().forPath(root + "/c/n0");
        until(() -> children.getCurrentData().size() == 20
            && tree.getCurrentChildren(root + "/c").size() == 20 && cache.size() == 21,
            "all children");
        until(() -> "2".equals(text(node.getCurrentData().getData()))
            && "2".equals(text(children.getCurrentData(root + "/c/a").getData()))
            && "2".equals(text(cache.get(root + "/c/a").get().getData())), "the new data");
        cache.close();
        node.close();
        tree.close();
        children.close();
    }

    private static void barriers() throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(zk, root + "/bar");
        barrier.setBarrier();
        CuratorFramework other = client();
        other.sync().forPath(root);
        Future<Boolean> waits = POOL.submit(
            () -> new DistributedBarrier(other, root + "/bar").waitOnBarrier(WAIT_S, TimeUnit.SECONDS));
        barrier.removeBarrier();
        check(value(waits), "the barrier stayed");
        List<Future<Boolean>> all = new ArrayList<>();
        AtomicInteger entered = new AtomicInteger();
        for (int n = 0; n < 3; n++) {
            DistributedDoubleBarrier one = new DistributedDoubleBarrier(client(), root + "/dbl", 3);
            all.add(POOL.submit(() -> {
                check(one.enter(WAIT_S, TimeUnit.SECONDS), "not entered");
                entered.incrementAndGet();
                check(one.leave(WAIT_S, TimeUnit.SECONDS), "not left");
                return entered.get() == 3;
            }));
        }
        for (Future<Boolean> one : all) {
            check(value(one), "left before all have entered");
        }
    }

    private static void counters() throws Exception {
        SharedCount one = new SharedCount(zk, root + "/count", 5);
        SharedCount two = new SharedCount(client(), root + "/count", 5);
        one.start();
        two.start();
        one.setCount(9);
        until(() -> two.getCount() == 9, "the count");
        VersionedValue<Integer> before = two.getVersionedValue();
        check(two.trySetCount(before, 10), "the count was not set");
        check(!two.trySetCount(before, 11), "an old version was taken");
        two.close();
        one.close();
        List<Future<Integer>> workers = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            DistributedAtomicLong number =
                new DistributedAtomicLong(client(), root + "/num", new RetryNTimes(RETRIES, 1));
            workers.add(POOL.submit(() -> {
                int done = 0;
                for (int round = 0; round < 10; round++) {
                    AtomicValue<Long> result = number.increment();
                    done += result.succeeded() ? 1 : 0;
                }
                return done;
            }));
        }
        long sum = 0;
        for (Future<Integer> worker : workers) {
            sum += value(worker);
        }
        zk.sync().forPath(root);
        DistributedAtomicLong number =
            new DistributedAtomicLong(zk, root + "/num", new RetryNTimes(RETRIES, 1));
        equal(number.get().postValue(), sum);
    }

    private static void nodes() throws Exception {
        CuratorFramework other = client();
        PersistentNode node =
            new PersistentNode(zk, CreateMode.EPHEMERAL, false, root + "/pn", bytes("x"));
        node.start();
        check(node.waitForInitialCreate(WAIT_S, TimeUnit.SECONDS), "no node");
        other.sync().forPath(root);
        long first = other.checkExists().forPath(root + "/pn").getCzxid();
        other.delete().forPath(root + "/pn");
        until(() -> {
            org.apache.zookeeper.data.Stat stat = other.checkExists().forPath(root + "/pn");
            return stat != null && stat.getCzxid() > first;
        }, "the node comes back");
        node.close();
        GroupMember one = new GroupMember(zk, root + "/group", "one", bytes("1"));
        GroupMember two = new GroupMember(other, root + "/group", "two", bytes("2"));
        one.start();
        two.start();
        until(() -> one.getCurrentMembers().size() == 2, "two members");
        two.close();
        until(() -> one.getCurrentMembers().size() == 1, "one member");
        one.close();
        try (PersistentTtlNode ttl = new PersistentTtlNode(zk, root + "/ttlnode", 60000, bytes("x"))) {
            ttl.start();
            check(ttl.waitForInitialCreate(WAIT_S, TimeUnit.SECONDS), "no node with a ttl");
        }
    }

    private static void kills() throws Exception {
        CuratorFramework client = client();
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        client.create().withMode(CreateMode.EPHEMERAL).forPath(root + "/kept");
        CuratorCache cache = CuratorCache.build(client, root);
        cache.start();
        LeaderLatch latch = new LeaderLatch(client, root + "/latch2", "x");
        latch.start();
        check(latch.await(WAIT_S, TimeUnit.SECONDS), "no leader");
        InterProcessMutex mutex = new InterProcessMutex(client, root + "/mutex2");
        AtomicBoolean lost = new AtomicBoolean();
        client.getConnectionStateListenable().addListener(
            (at, state) -> lost.compareAndSet(false, state == ConnectionState.LOST));
        for (int n = 0; n < 4; n++) {
            kill(port(client));
            String name = root + "/after" + n;
            zk.create().orSetData().forPath(name, bytes("x"));
            check(mutex.acquire(WAIT_S, TimeUnit.SECONDS), "no lock after a kill");
            mutex.release();
            until(() -> cache.get(name).isPresent(), "the cache has what was made meanwhile");
            check(client.checkExists().forPath(root + "/kept") != null, "the ephemeral is gone");
            until(latch::hasLeadership, "it leads again");
        }
        check(!lost.get(), "the session was lost");
        equal(client.getZookeeperClient().getZooKeeper().getSessionId(), session);
        latch.close();
        cache.close();
    }

    public static void main(String[] names) throws Exception {
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("operations", CuratorChecks::operations);
        checks.put("transactions", CuratorChecks::transactions);
        checks.put("watches", CuratorChecks::watches);
        checks.put("mutex", CuratorChecks::mutex);
        checks.put("otherLocks", CuratorChecks::otherLocks);
        checks.put("leaderLatch", CuratorChecks::leaderLatch);
        checks.put("leaderSelector", CuratorChecks::leaderSelector);
        checks.put("queues", CuratorChecks::queues);
        checks.put("caches", CuratorChecks::caches);
        checks.put("barriers", CuratorChecks::barriers);
        checks.put("counters", CuratorChecks::counters);
        checks.put("nodes", CuratorChecks::nodes);
        checks.put("kills", CuratorChecks::kills);
        int failed = 0;
        for (Map.Entry<String, Check> one : checks.entrySet()) {
            if (names.length > 0 && !Arrays.asList(names).contains(one.getKey())) {
                continue;
            }
            long began = System.nanoTime();
            String word = "ok";
            try {
                zk = client();
                root = "/curator-" + one.getKey();
                zk.create().orSetData().forPath(root);
                one.getValue().run();
            } catch (Throwable fault) {
                fault.printStackTrace(System.out);
                word = "FAILED";
                failed++;
            }
            CLIENTS.forEach(CuratorFramework::close);
            CLIENTS.clear();
            System.out.printf("%s %s %d ms%n", word, one.getKey(), (System.nanoTime() - began) / 1000000);
        }
        System.out.printf("Curator on %s: %d checks failed%n", System.getenv("SERVER_KIND"), failed);
        System.exit(failed > 0 ? 1 : 0);
    }
}
