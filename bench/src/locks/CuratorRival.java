import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/**
 * The worker for Apache Curator's {@code InterProcessMutex}: it does what the lines of its standard input ask for.
 *
 * <p>Every contender is a thread with a lock object of its own, which is Curator's best case: threads that share one object
 * wake each other. README.md lists the requests.
 */
public final class CuratorRival {
    private static final int SESSION_TIMEOUT_MS = 30_000;
    private static final int CONNECT_WITHIN_MS = 15_000;
    /** How long the threads of contenders that were cut off may take to end. */
    private static final int END_WITHIN_MS = 10_000;

    private final List<CuratorFramework> clients = new ArrayList<>();
    private final List<Thread> contenders = new ArrayList<>();
    private final AtomicInteger begun = new AtomicInteger();
    private final AtomicLong finished = new AtomicLong();
    private final AtomicBoolean isHeld = new AtomicBoolean();
    private final AtomicReference<Exception> failure = new AtomicReference<>();
    private final Times times = new Times();
    private volatile boolean isMeasuring;
    private volatile boolean isStopping;
    private volatile boolean isCutOff;

    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Some logging backends write there unless told otherwise.
        System.setOut(System.err);
        out.print("ready Curator " + version() + " on Java " + System.getProperty("java.version") + "\n");
        out.flush();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        CuratorRival rival = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                String[] words = line.split(" ");
                if (words[0].equals("run") || words[0].equals("arrive")) {
                    rival = new CuratorRival();
                }
                if (rival == null) {
                    throw new IllegalStateException("nothing runs");
                }
                answer = rival.answer(words);
            } catch (Exception error) {
                answer = "error " + error.toString().replace('\n', ' ');
            }
            out.print(answer + "\n");
            out.flush();
        }
        // Threads that still wait for a lock would keep the process.
        System.exit(0);
    }

    /** What Maven wrote into the jar, as not every manifest tells the version. */
    private static String version() throws IOException {
        Properties properties = new Properties();
        String resource = "/META-INF/maven/org.apache.curator/curator-recipes/pom.properties";
        try (InputStream in = InterProcessMutex.class.getResourceAsStream(resource)) {
            if (in != null) {
                properties.load(in);
            }
        }
        return properties.getProperty("version", "of the class path");
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "run":
                run(words[1], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]), words[5]);
                return "running";
            case "progress":
                check();
                return "progress " + begun.get() + " " + finished.get();
            case "measure":
                return measure(Long.parseLong(words[1]));
            case "arrive":
                return arrive(words);
            case "stop":
                return "stopped " + stop(Long.parseLong(words[1]));
            default:
                throw new IllegalArgumentException("unknown request: " + words[0]);
        }
    }

    private void run(String implementation, String path, int contenderCount, int sessions, String connectString)
            throws InterruptedException {
        connect(implementation, sessions, connectString);
        for (int i = 0; i < contenderCount; i++) {
            InterProcessMutex lock = new InterProcessMutex(clients.get(i % sessions), path);
            contenders.add(new Thread(() -> contend(lock)));
        }
        contenders.forEach(Thread::start);
    }

    private void connect(String implementation, int sessions, String connectString) throws InterruptedException {
        if (!implementation.equals("curator")) {
            throw new IllegalArgumentException("unknown implementation: " + implementation);
        }
        for (int i = 0; i < sessions; i++) {
            CuratorFramework client = CuratorFrameworkFactory.newClient(
                    connectString, SESSION_TIMEOUT_MS, CONNECT_WITHIN_MS, new RetryOneTime(100));
            clients.add(client);
            client.start();
        }
        for (CuratorFramework client : clients) {
            if (!client.blockUntilConnected(CONNECT_WITHIN_MS, TimeUnit.MILLISECONDS)) {
                throw new IllegalStateException("no connection to " + connectString);
            }
        }
    }

    private void contend(InterProcessMutex lock) {
        begun.incrementAndGet();
        try {
            while (!isStopping) {
                long called = System.nanoTime();
                lock.acquire();
                checkAlone();
                lock.release();
                finished.incrementAndGet();
                if (isMeasuring) {
                    times.add((System.nanoTime() - called) / 1000);
                }
            }
        } catch (Exception error) {
            if (!isCutOff) {
                failure.compareAndSet(null, error);
            }
        }
    }

    /** Fails if another contender holds the lock at the same time. */
    private void checkAlone() {
        if (!isHeld.compareAndSet(false, true)) {
            throw new IllegalStateException("two contenders held the lock at once");
        }
        isHeld.set(false);
    }

    /** Fails once a contender has. */
    private void check() throws Exception {
        Exception error = failure.get();
        if (error != null) {
            throw error;
        }
    }

    private String measure(long windowMs) throws Exception {
        long started = System.nanoTime();
        isMeasuring = true;
        Thread.sleep(windowMs);
        isMeasuring = false;
        long elapsedUs = (System.nanoTime() - started) / 1000;
        String answer = "measured " + elapsedUs + times.take();
        check();
        return answer;
    }

    /**
     * Puts an open load on the lock: acquires arrive at a rate, whether or not earlier ones were granted. Each has a thread and
     * a lock object of its own.
     */
    private String arrive(String[] words) throws Exception {
        String path = words[2];
        int outstandingMax = Integer.parseInt(words[3]);
        double ratePerS = Double.parseDouble(words[6]);
        int untimed = Integer.parseInt(words[7]);
        int timed = Integer.parseInt(words[8]);
        SplittableRandom random = new SplittableRandom(Long.parseUnsignedLong(words[9]));
        connect(words[1], Integer.parseInt(words[4]), words[5]);
        ThreadPoolExecutor threads =
                new ThreadPoolExecutor(0, outstandingMax, 60, TimeUnit.SECONDS, new SynchronousQueue<>());
        long dropped = 0;
        long began = System.nanoTime();
        long firstTimed = began;
        double atS = 0;
        for (int i = 0; i < untimed + timed; i++) {
            atS -= Math.log(1 - random.nextDouble()) / ratePerS;
            long due = began + (long) (atS * 1e9);
            boolean isTimed = i >= untimed;
            if (i == untimed) {
                firstTimed = due;
            }
            for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            InterProcessMutex lock = new InterProcessMutex(clients.get(i % clients.size()), path);
            try {
                threads.execute(() -> acquire(lock, due, isTimed));
            } catch (RejectedExecutionException noThreadIsFree) {
                dropped += isTimed ? 1 : 0;
            }
        }
        long elapsedUs = (System.nanoTime() - firstTimed) / 1000;
        threads.shutdown();
        threads.awaitTermination(Long.parseLong(words[10]), TimeUnit.MILLISECONDS);
        String answer = "arrived " + timed + " " + dropped + " " + elapsedUs + times.take();
        isCutOff = true;
        clients.forEach(CuratorFramework::close);
        threads.shutdownNow();
        if (!threads.awaitTermination(END_WITHIN_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("not every acquire ended");
        }
        check();
        return answer;
    }

    /** Waits for the grant, and releases at once. */
    private void acquire(InterProcessMutex lock, long due, boolean isTimed) {
        try {
            lock.acquire();
            long waitUs = (System.nanoTime() - due) / 1000;
            checkAlone();
            if (isTimed) {
                times.add(waitUs);
            }
            lock.release();
        } catch (Exception error) {
            if (!isCutOff) {
                failure.compareAndSet(null, error);
            }
        }
    }

    /** Lets every contender finish its cycle, and returns how many had to be cut off. */
    private int stop(long withinMs) throws Exception {
        isStopping = true;
        join(withinMs);
        int cutOff = alive();
        isCutOff = true;
        // The nodes end with the sessions at once, so no thread must delete its own.
        clients.forEach(CuratorFramework::close);
        contenders.forEach(Thread::interrupt);
        join(END_WITHIN_MS);
        if (alive() > 0) {
            throw new IllegalStateException(alive() + " contenders did not end");
        }
        check();
        return cutOff;
    }

    private void join(long withinMs) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(withinMs);
        for (Thread contender : contenders) {
            long leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
            if (leftMs > 0) {
                contender.join(leftMs);
            }
        }
    }

    private int alive() {
        return (int) contenders.stream().filter(Thread::isAlive).count();
    }

    /** Times of cycles, or waits, in microseconds. */
    private static final class Times {
        private long[] times = new long[1024];
        private int count;

        synchronized void add(long us) {
            if (count == times.length) {
                times = Arrays.copyOf(times, 2 * count);
            }
            times[count++] = us;
        }

        /** Each of them as US:COUNT with a space before it; they are forgotten here. */
        synchronized String take() {
            Map<Long, Long> counts = new TreeMap<>();
            for (int i = 0; i < count; i++) {
                counts.merge(times[i], 1L, Long::sum);
            }
            count = 0;
            StringBuilder text = new StringBuilder();
            counts.forEach((us, number) -> text.append(' ').append(us).append(':').append(number));
            return text.toString();
        }
    }
}
