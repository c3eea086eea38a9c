import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * The adapter of Apache Curator's locks. Arguments: the connect string, the session timeout in milliseconds. See src/lines.rs.
 *
 * <p>A holder heeds the advice of Curator: it relies on nothing while the connection is suspended, and a lost connection ends
 * all holds.
 */
public final class CuratorAdapter {
    private static final int LOOK_MS = 10;
    private static final int CONNECT_MS = 3000;
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final AtomicInteger LOSSES = new AtomicInteger();
    private static final Map<Long, LinkedBlockingQueue<String>> REQUESTS = new ConcurrentHashMap<>();
    private static volatile boolean isConnected;
    private static CuratorFramework client;

    public static void main(String[] args) throws Exception {
        int sessionMs = Integer.parseInt(args[1]);
        client = CuratorFrameworkFactory.newClient(args[0], sessionMs, CONNECT_MS, new ExponentialBackoffRetry(100, 5));
        client.getConnectionStateListenable().addListener((ignored, state) -> changed(state));
        client.start();
        if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection to " + args[0]);
        }
        say("{\"is\": \"ready\", \"locks\": [\"mutex\", \"multi\", \"read\", \"write\", \"semaphore\", \"semaphore-mutex\", "
                + "\"leader\"], \"version\": \"" + version() + "\", \"reenters\": true}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String request = line;
            long id = Long.parseLong(field(request, "\"id\":(\\d+)"));
            if (request.contains("\"do\":\"acquire\"")) {
                REQUESTS.put(id, new LinkedBlockingQueue<>());
                // Curator's locks belong to threads.
                new Thread(() -> contend(id, request)).start();
            } else if (REQUESTS.containsKey(id)) {
                REQUESTS.get(id).put(field(request, "\"do\":\"([a-z]+)\""));
            }
        }
        System.exit(0);
    }

    /** Maven writes the version into the archive of the library. */
    private static String version() throws IOException {
        Properties properties = new Properties();
        String path = "/META-INF/maven/org.apache.curator/curator-recipes/pom.properties";
        try (InputStream file = InterProcessMutex.class.getResourceAsStream(path)) {
            properties.load(file);
        }
        return properties.getProperty("version");
    }

    private static void changed(ConnectionState state) {
        if (state == ConnectionState.LOST) {
            LOSSES.incrementAndGet();
        }
        if (state == ConnectionState.CONNECTED || (state == ConnectionState.RECONNECTED && !isConnected)) {
            say("{\"is\": \"session\", \"session\": " + session() + "}");
        }
        isConnected = state.isConnected();
    }

    private static long session() {
        try {
            return client.getZookeeperClient().getZooKeeper().getSessionId();
        } catch (Exception error) {
            return 0;
        }
    }

    private static void contend(long id, String request) {
        int losses = LOSSES.get();
        Held held;
        try {
            held = acquire(request);
        } catch (Exception error) {
            answer("failed", id, error);
            return;
        }
        if (held == null) {
            answer("failed", id, null);
            return;
        }
        answer("acquired", id, null);
        boolean isLost = false;
        boolean holdsTwice = false;
        LinkedBlockingQueue<String> requests = REQUESTS.get(id);
        try {
            while (true) {
                long at = System.nanoTime();
                if (LOSSES.get() != losses || !held.lives()) {
                    if (!isLost) {
                        answer("lost", id, null);
                    }
                    isLost = true;
                } else if (isConnected) {
                    say("{\"is\": \"holding\", \"id\": " + id + ", \"at\": " + at + "}");
                }
                String next = requests.poll(LOOK_MS, TimeUnit.MILLISECONDS);
                if ("release".equals(next)) {
                    break;
                } else if ("reenter".equals(next)) {
                    held.again();
                    holdsTwice = true;
                    answer("reentered", id, null);
                } else if ("leave".equals(next)) {
                    held.leave();
                    holdsTwice = false;
                    answer("left", id, null);
                }
            }
            // The campaign may ask for the release before it has heard that the contender holds twice.
            if (holdsTwice) {
                held.leave();
            }
            held.release();
            answer("released", id, null);
        } catch (Exception error) {
            answer("released", id, error);
        }
        REQUESTS.remove(id);
    }

    /** Returns null if others held for as long as it waited. */
    private static Held acquire(String request) throws Exception {
        long withinMs = Long.parseLong(field(request, "\"within_ms\":(\\d+)"));
        List<String> paths = new ArrayList<>();
        Matcher path = Pattern.compile("\"(/[^\"]*)\"").matcher(request);
        while (path.find()) {
            paths.add(path.group(1));
        }
        String lock = field(request, "\"lock\":\"([a-z-]+)\"");
        switch (lock) {
            case "semaphore":
                int of = Integer.parseInt(field(request, "\"permits\":\\[(\\d+)"));
                int take = Integer.parseInt(field(request, "\"permits\":\\[\\d+,(\\d+)"));
                InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, paths.get(0), of);
                Collection<Lease> leases = semaphore.acquire(take, withinMs, TimeUnit.MILLISECONDS);
                return leases == null ? null : new Held(() -> semaphore.returnAll(leases));
            case "leader":
                LeaderLatch latch = new LeaderLatch(client, paths.get(0));
                latch.start();
                if (latch.await(withinMs, TimeUnit.MILLISECONDS)) {
                    return new Held(latch::close) {
                        @Override
                        boolean lives() {
                            return latch.hasLeadership();
                        }
                    };
                }
                latch.close();
                return null;
            default:
                InterProcessLock mutex = lock(lock, paths);
                return mutex.acquire(withinMs, TimeUnit.MILLISECONDS) ? new Held(mutex::release) {
                    @Override
                    void again() throws Exception {
                        mutex.acquire();
                    }

                    @Override
                    void leave() throws Exception {
                        mutex.release();
                    }
                } : null;
        }
    }

    private static InterProcessLock lock(String lock, List<String> paths) {
        switch (lock) {
            case "mutex":
                return new InterProcessMutex(client, paths.get(0));
            case "multi":
                return new InterProcessMultiLock(client, paths);
            case "read":
                return new InterProcessReadWriteLock(client, paths.get(0)).readLock();
            case "write":
                return new InterProcessReadWriteLock(client, paths.get(0)).writeLock();
            case "semaphore-mutex":
                return new InterProcessSemaphoreMutex(client, paths.get(0));
            default:
                throw new IllegalArgumentException("unknown lock: " + lock);
        }
    }

    private static void answer(String is, long id, Exception error) {
        String text = error == null ? "" : ", \"error\": \"" + error.toString().replaceAll("[\"\\\\\\p{Cntrl}]", " ") + "\"";
        say("{\"is\": \"" + is + "\", \"id\": " + id + ", \"at\": " + System.nanoTime() + text + "}");
    }

    private static synchronized void say(String line) {
        OUT.print(line + "\n");
        OUT.flush();
    }

    private static String field(String line, String pattern) {
        Matcher matcher = Pattern.compile(pattern).matcher(line);
        if (!matcher.find()) {
            throw new IllegalArgumentException("no " + pattern + " in " + line);
        }
        return matcher.group(1);
    }

    private interface Release {
        void run() throws Exception;
    }

    /** What was acquired. */
    private static class Held {
        private final Release release;

        Held(Release release) {
            this.release = release;
        }

        boolean lives() {
            return true;
        }

        void again() throws Exception {}

        void leave() throws Exception {}

        void release() throws Exception {
            release.run();
        }
    }
}
