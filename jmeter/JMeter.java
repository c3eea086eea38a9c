import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.file.Path;

/**
 * Starts JMeter from the folder that the property jmeter.home names, with everything of it in the class path.
 *
 * <p>Debian's JMeter 2.13 comes with a newer XStream than it was written for, which reads only the classes it is told to, so
 * that its own command loads no plan at all. Here it is told that plans may be of any class, as they may be in every release
 * of JMeter itself.
 */
public class JMeter {
    public static void main(String[] arguments) throws Throwable {
        Path home = Path.of(System.getProperty("jmeter.home"));
        // Reading and writing plans is set up when its class is loaded, by what is in these.
        Class<?> utils = Class.forName("org.apache.jmeter.util.JMeterUtils");
        utils.getMethod("setJMeterHome", String.class).invoke(null, home.toString());
        Path properties = home.resolve("bin/jmeter.properties");
        utils.getMethod("loadJMeterProperties", String.class).invoke(null, properties.toString());

        Class<?> permission = Class.forName("com.thoughtworks.xstream.security.TypePermission");
        Object any = Class.forName("com.thoughtworks.xstream.security.AnyTypePermission").getField("ANY").get(null);
        Field plans = Class.forName("org.apache.jmeter.save.SaveService").getDeclaredField("JMXSAVER");
        plans.setAccessible(true);
        Object reader = plans.get(null);
        reader.getClass().getMethod("addPermission", permission).invoke(reader, any);

        Object jmeter = Class.forName("org.apache.jmeter.JMeter").getConstructor().newInstance();
        try {
            jmeter.getClass().getMethod("start", String[].class).invoke(jmeter, (Object) arguments);
        } catch (InvocationTargetException failure) {
            throw failure.getCause();
        }
    }
}
