import java.io.File;
import org.apache.jute.Record;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.server.DataNode;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.txn.CreateTxn;
import org.apache.zookeeper.txn.DeleteTxn;
import org.apache.zookeeper.txn.TxnHeader;

/**
 * Lets the next sequential child of a node get a given number: java ChildNumber.java FOLDER PATH NUMBER
 *
 * <p>FOLDER is the dataDir of a server that does not run. A server numbers the sequential children of a node by the
 * children created before. Two transactions are added to its log: a child was created as the last one before that
 * number, and deleted. So the server counts from there, whichever snapshot it begins with.
 */
public final class ChildNumber {
    private ChildNumber() {}

    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        String path = arguments[1];
        int number = Integer.parseInt(arguments[2]);

        FileTxnSnapLog log = new FileTxnSnapLog(folder, folder);
        ZKDatabase database = new ZKDatabase(log);
        long zxid = database.loadDataBase();
        DataNode node = database.getNode(path);
        if (node == null) {
            fail("there is no node " + path);
        }
        int next = node.stat.getCversion();
        if (number < next) {
            fail("the next child of " + path + " gets number " + next + ", which cannot become " + number);
        }
        if (number > next) {
            String child = (path.equals("/") ? "" : path) + "/last-before-" + number;
            // The creation carries the number of the child after it.
            Record creation = new CreateTxn(child, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, false, number);
            append(log, zxid + 1, ZooDefs.OpCode.create, creation);
            append(log, zxid + 2, ZooDefs.OpCode.delete, new DeleteTxn(child));
            log.commit();
        }
        log.close();
    }

    private static void append(FileTxnSnapLog log, long zxid, int type, Record transaction) throws Exception {
        // No session has the id zero.
        TxnHeader header = new TxnHeader(0, 0, zxid, System.currentTimeMillis(), type);
        log.append(new Request(0, 0, type, header, transaction, zxid));
    }

    private static void fail(String reason) {
        System.err.println(reason);
        System.exit(1);
    }
}
