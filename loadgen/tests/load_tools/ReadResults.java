import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import org.apache.jmeter.reporters.ResultCollector;
import org.apache.jmeter.samplers.SampleResult;
import org.apache.jmeter.save.CSVSaveService;
import org.apache.jmeter.util.JMeterUtils;
import org.apache.jmeter.visualizers.Visualizer;

/**
 * Reads a log of results as a listener of JMeter does, and prints for each label: samples, successes, the sum of the elapsed
 * times, the longest of them, the sum of the latencies, and the threads of the last sample.
 */
public class ReadResults implements Visualizer {
    private final Map<String, long[]> labels = new TreeMap<>();

    @Override
    public void add(SampleResult sample) {
        long[] sums = labels.computeIfAbsent(sample.getSampleLabel(), label -> new long[6]);
        sums[0] += 1;
        sums[1] += sample.isSuccessful() ? 1 : 0;
        sums[2] += sample.getTime();
        sums[3] = Math.max(sums[3], sample.getTime());
        sums[4] += sample.getLatency();
        sums[5] = sample.getAllThreads();
    }

    @Override
    public boolean isStats() {
        return false;
    }

    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(System.getProperty("jmeter.home"));
        JMeterUtils.setJMeterHome(home.toString());
        JMeterUtils.loadJMeterProperties(home.resolve("bin/jmeter.properties").toString());
        // What it expects of a log without a header that it knows, which must not be needed.
        ResultCollector collector = new ResultCollector();
        ReadResults results = new ReadResults();
        CSVSaveService.processSamples(arguments[0], results, collector);
        results.labels.forEach((label, sums) -> {
            StringBuilder line = new StringBuilder("results " + label);
            for (long sum : sums) {
                line.append(' ').append(sum);
            }
            System.out.println(line);
        });
    }
}
