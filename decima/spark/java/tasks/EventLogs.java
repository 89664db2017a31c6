// Event logs on any file system of Hadoop's, as streams of bytes for Python.
package decima.spark;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.commons.io.IOUtils;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.SerializableConfiguration;
import org.apache.spark.util.TaskCompletionListener;

/** Lists in the driver and reads in the tasks, with the settings and rights of the application. */
public final class EventLogs implements FlatMapFunction {
  private static final long serialVersionUID = 1L;
  private final Broadcast settings;

  public EventLogs(Object context) {
    JavaSparkContext spark = (JavaSparkContext) context;
    settings = spark.broadcast(new SerializableConfiguration(spark.hadoopConfiguration()));
  }

  private Configuration configuration() {
    return ((SerializableConfiguration) settings.value()).value();
  }

  /** The path itself, then what lies in it if it is a folder: kind, size and path, each ended by NUL. */
  public String list(String text) throws IOException {
    Path path = new Path(text);
    FileSystem system = path.getFileSystem(configuration());
    FileStatus itself = system.getFileStatus(path);
    StringBuilder listed = new StringBuilder();
    tell(listed, itself);
    if (itself.isDirectory()) {
      FileStatus[] inside = system.listStatus(path);
      Arrays.sort(inside);
      for (int index = 0; index < inside.length; index++) {
        tell(listed, inside[index]);
      }
    }
    return listed.toString();
  }

  private static void tell(StringBuilder listed, FileStatus file) {
    listed.append(file.isDirectory() ? 'd' : 'f').append('\0').append(file.getLen()).append('\0');
    listed.append(file.getPath().toString()).append('\0');
  }

  /** One partition for each log. */
  public JavaRDD pieces(Object context, List logs) {
    return ((JavaSparkContext) context).parallelize(logs, logs.size()).flatMap(this);
  }

  public Iterator call(Object log) {
    return new Pieces((String) log, configuration());
  }

  /** Frees what the broadcast holds. */
  public void close() {
    settings.destroy();
  }

  /**
   * What a log holds, in pieces of a kind (the first byte) and a content: L the log as it was asked
   * for, D bytes of a file, E the end of a file, X why it cannot be read on.
   */
  public static final class Pieces implements Iterator, TaskCompletionListener {
    private static final int SIZE = 1 << 17;
    private final String log;
    private final String[] files;
    private final Configuration configuration;
    private final byte[] buffer = new byte[SIZE];
    private InputStream stream;
    private int next = -1;

    /** The files of the log come after its first two parts, each ended by NUL. */
    Pieces(String log, Configuration configuration) {
      this.log = log;
      this.configuration = configuration;
      String[] parts = log.split("\0");
      files = (String[]) Arrays.copyOfRange(parts, 2, parts.length);
      TaskCompletionListener end = this;
      TaskContext.get().addTaskCompletionListener(end);
    }

    public boolean hasNext() {
      return next < files.length;
    }

    public Object next() {
      if (next >= files.length) {
        throw new NoSuchElementException();
      }
      if (next < 0) {
        next = 0;
        return text('L', log);
      }
      try {
        if (stream == null) {
          Path path = new Path(files[next]);
          stream = path.getFileSystem(configuration).open(path);
        }
        int size = IOUtils.read(stream, buffer);
        if (size > 0) {
          return piece('D', buffer, size);
        }
        close();
        next++;
        return new byte[] {(byte) 'E'};
      } catch (IOException fault) {
        close();
        next++;
        String reason = fault.getMessage();
        return text('X', reason == null ? fault.getClass().getName() : reason);
      }
    }

    public void onTaskCompletion(TaskContext task) {
      close();
    }

    private void close() {
      try {
        if (stream != null) {
          stream.close();
        }
      } catch (IOException fault) {
        // What was read is read.
      }
      stream = null;
    }

    private static byte[] text(char kind, String text) {
      byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
      return piece(kind, bytes, bytes.length);
    }

    private static byte[] piece(char kind, byte[] bytes, int size) {
      byte[] piece = new byte[size + 1];
      piece[0] = (byte) kind;
      System.arraycopy(bytes, 0, piece, 1, size);
      return piece;
    }
  }
}
