import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryOneTime;

/**
 * Apache Curator as a contender for the locks under test.
 *
 * <p>It prints {@code listening PORT} and serves loopback connections. Each connection is a contender of its own: a thread,
 * which is what Curator's locks belong to, and a ZooKeeper session, which ends with the connection. A request is one line of
 * words, its answer one line; {@code revoked} comes unasked. README.md lists the requests.
 */
public final class CuratorRival implements Runnable {
    private final Socket socket;
    private final Map<String, InterProcessLock> locks = new HashMap<>();
    private final Map<String, InterProcessReadWriteLock> readWriteLocks = new HashMap<>();
    private final Map<String, SharedCount> counts = new HashMap<>();
    private CuratorFramework client;
    private PrintStream out;

    private CuratorRival(Socket socket) {
        this.socket = socket;
    }

    public static void main(String[] args) throws IOException {
        try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            System.out.println("listening " + server.getLocalPort());
            // Some logging backends write there unless told otherwise, and nobody reads it any more.
            System.setOut(System.err);
            while (true) {
                new Thread(new CuratorRival(server.accept())).start();
            }
        }
    }

    @Override
    public void run() {
        try (socket;
                BufferedReader in = new BufferedReader(
                        new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8))) {
            socket.setTcpNoDelay(true);
            out = new PrintStream(socket.getOutputStream(), true, StandardCharsets.UTF_8);
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                say(answerOrError(line));
            }
        } catch (IOException error) {
            System.err.println("a connection broke: " + error);
        } finally {
            if (client != null) {
                client.close();
            }
        }
    }

    /** Called by listeners too, on threads of Curator. */
    private synchronized void say(String line) {
        out.print(line + "\n");
        out.flush();
    }

    private String answerOrError(String line) {
        try {
            return answer(line.split(" "));
        } catch (Exception error) {
            return "error " + error.toString().replace('\n', ' ');
        }
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "connect":
                return connect(words[1]);
            case "acquire":
                lock(words[1], words[2]).acquire();
                return "acquired";
            case "try":
                long waitMs = Long.parseLong(words[3]);
                return lock(words[1], words[2]).acquire(waitMs, TimeUnit.MILLISECONDS) ? "acquired" : "timeout";
            case "release":
                lock(words[1], words[2]).release();
                return "released";
            case "participants":
                return "participants " + String.join(" ", participants(lock(words[1], words[2])));
            case "leader":
                return "leader " + ((Latch) lock(words[1], words[2])).leader();
            case "revocable":
                ((InterProcessMutex) lock(words[1], words[2])).makeRevocable(lock -> say("revoked"));
                return "armed";
            case "revoke":
                Revoker.attemptRevoke(client, words[1]);
                return "asked";
            case "count":
                return "count " + count(words[1]).getCount();
            case "set-count":
                count(words[1]).setCount(Integer.parseInt(words[2]));
                return "set";
            case "increment":
                return increment(lock(words[1], words[2]), words[3], Integer.parseInt(words[4]));
            case "occupy":
                return occupy(lock(words[1], words[2]), Path.of(words[3]), Integer.parseInt(words[4]));
            case "observe":
                return observe(lock(words[1], words[2]), words[3], Integer.parseInt(words[4]));
            default:
                throw new IllegalArgumentException("unknown request: " + words[0]);
        }
    }

    private String connect(String connectString) throws InterruptedException {
        client = CuratorFrameworkFactory.newClient(connectString, new RetryOneTime(100));
        client.start();
        if (!client.blockUntilConnected(20, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection to " + connectString);
        }
        return "connected";
    }

    /** One object for a recipe and path, as Curator counts re-entries by object. */
    private InterProcessLock lock(String recipe, String path) throws Exception {
        String key = recipe + " " + path;
        InterProcessLock lock = locks.get(key);
        if (lock == null) {
            lock = newLock(recipe, path);
            locks.put(key, lock);
        }
        return lock;
    }

    private InterProcessLock newLock(String recipe, String path) throws Exception {
        if (recipe.startsWith("semaphore:/")) {
            SharedCount permits = count(recipe.substring("semaphore:".length()));
            return new Leases(new InterProcessSemaphoreV2(client, path, permits));
        }
        if (recipe.startsWith("semaphore:")) {
            int permits = Integer.parseInt(recipe.substring("semaphore:".length()));
            return new Leases(new InterProcessSemaphoreV2(client, path, permits));
        }
        if (recipe.startsWith("leader:")) {
            return new Latch(client, path, recipe.substring("leader:".length()));
        }
        switch (recipe) {
            case "mutex":
                return new InterProcessMutex(client, path);
            case "read":
                return readWriteLock(path).readLock();
            case "write":
                return readWriteLock(path).writeLock();
            case "semaphore-mutex":
                return new InterProcessSemaphoreMutex(client, path);
            default:
                throw new IllegalArgumentException("unknown recipe: " + recipe);
        }
    }

    private InterProcessReadWriteLock readWriteLock(String path) {
        return readWriteLocks.computeIfAbsent(path, key -> new InterProcessReadWriteLock(client, key));
    }

    private SharedCount count(String path) throws Exception {
        SharedCount count = counts.get(path);
        if (count == null) {
            count = new SharedCount(client, path, 0);
            count.start();
            counts.put(path, count);
        }
        return count;
    }

    private static Collection<String> participants(InterProcessLock lock) throws Exception {
        if (lock instanceof Latch) {
            return ((Latch) lock).participants();
        }
        if (lock instanceof Leases) {
            return ((Leases) lock).semaphore.getParticipantNodes();
        }
        return ((InterProcessMutex) lock).getParticipantNodes();
    }

    /** Adds one to a counter of two equal halves, which a second writer would tear or overwrite. */
    private static String increment(InterProcessLock lock, String file, int rounds) throws Exception {
        try (RandomAccessFile counter = new RandomAccessFile(file, "rw")) {
            for (int round = 0; round < rounds; round++) {
                lock.acquire();
                try {
                    long next = read(counter) + 1;
                    Thread.yield();
                    write(counter, 0, next);
                    Thread.yield();
                    write(counter, 1, next);
                } finally {
                    lock.release();
                }
            }
        }
        return "incremented";
    }

    private static String observe(InterProcessLock lock, String file, int rounds) throws Exception {
        try (RandomAccessFile counter = new RandomAccessFile(file, "r")) {
            for (int round = 0; round < rounds; round++) {
                lock.acquire();
                try {
                    long before = read(counter);
                    Thread.yield();
                    long after = read(counter);
                    if (before != after) {
                        throw new IllegalStateException("changed under a reader from " + before + " to " + after);
                    }
                } finally {
                    lock.release();
                }
            }
        }
        return "observed";
    }

    /** Is present in a folder as a file while it holds, and tells how many were present at most, itself included. */
    private static String occupy(InterProcessLock lock, Path folder, int rounds) throws Exception {
        int most = 0;
        for (int round = 0; round < rounds; round++) {
            lock.acquire();
            try {
                Path presence = Files.createTempFile(folder, "curator", null);
                Thread.yield();
                most = Math.max(most, folder.toFile().list().length);
                Files.delete(presence);
            } finally {
                lock.release();
            }
        }
        return "occupied " + most;
    }

    private static long read(RandomAccessFile counter) throws IOException {
        byte[] halves = new byte[20];
        counter.seek(0);
        counter.readFully(halves);
        String text = new String(halves, StandardCharsets.US_ASCII);
        long first = Long.parseLong(text.substring(0, 10));
        long second = Long.parseLong(text.substring(10));
        if (first != second) {
            throw new IllegalStateException("torn: " + first + " and " + second);
        }
        return first;
    }

    private static void write(RandomAccessFile counter, int half, long value) throws IOException {
        counter.seek(10L * half);
        counter.write(String.format("%010d", value).getBytes(StandardCharsets.US_ASCII));
    }

    /** A semaphore with the face of a lock: the lease that was taken last is returned first. */
    private static final class Leases implements InterProcessLock {
        private final InterProcessSemaphoreV2 semaphore;
        private final Deque<Lease> leases = new ArrayDeque<>();

        Leases(InterProcessSemaphoreV2 semaphore) {
            this.semaphore = semaphore;
        }

        @Override
        public void acquire() throws Exception {
            leases.push(semaphore.acquire());
        }

        @Override
        public boolean acquire(long time, TimeUnit unit) throws Exception {
            Lease lease = semaphore.acquire(time, unit);
            if (lease != null) {
                leases.push(lease);
            }
            return lease != null;
        }

        @Override
        public void release() throws IOException {
            leases.pop().close();
        }

        @Override
        public boolean isAcquiredInThisProcess() {
            return !leases.isEmpty();
        }
    }

    /** An election with the face of a lock: to acquire is to lead. */
    private static final class Latch implements InterProcessLock {
        private final CuratorFramework client;
        private final String path;
        private final String id;
        private LeaderLatch latch;

        Latch(CuratorFramework client, String path, String id) {
            this.client = client;
            this.path = path;
            this.id = id;
        }

        /** A latch takes part once. */
        private LeaderLatch newLatch() {
            return new LeaderLatch(client, path, id);
        }

        Collection<String> participants() throws Exception {
            Collection<String> told = new ArrayDeque<>();
            for (Participant one : newLatch().getParticipants()) {
                told.add(one.getId() + (one.isLeader() ? "=leader" : "=waiting"));
            }
            return told;
        }

        String leader() throws Exception {
            return newLatch().getLeader().getId();
        }

        @Override
        public void acquire() throws Exception {
            latch = newLatch();
            latch.start();
            latch.await();
        }

        @Override
        public boolean acquire(long time, TimeUnit unit) throws Exception {
            latch = newLatch();
            latch.start();
            boolean leads = latch.await(time, unit);
            if (!leads) {
                release();
            }
            return leads;
        }

        /** Waits until the node is gone, which {@code close} deletes in the background. */
        @Override
        public void release() throws Exception {
            String node = latch.getOurPath();
            latch.close();
            while (node != null && client.checkExists().forPath(node) != null) {
                Thread.yield();
            }
        }

        @Override
        public boolean isAcquiredInThisProcess() {
            return latch != null && latch.hasLeadership();
        }
    }
}
