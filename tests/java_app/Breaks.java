import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;

/**
 * Breaks one part of the plugin after the other, each in a session of its own, and counts how many
 * tasks of a user with a cap of two run at once.
 *
 * <p>Arguments: "missing", "broken" or "thread"; the plugin's jar; settings, as NAME=VALUE.
 *
 * <ul>
 *   <li>missing: a class cannot be loaded.
 *   <li>broken: after a healthy job every method of a class throws.
 *   <li>thread: after a healthy job a thread of the plugin dies.
 * </ul>
 */
public final class Breaks {
  private static final int TASKS = 12;
  private static final AtomicInteger RUNNING = new AtomicInteger();
  private static final AtomicInteger MOST = new AtomicInteger();
  /** the class whose methods throw, or that cannot be loaded */
  private static volatile String broken = "";

  /** Every method of the plugin calls this first. */
  public static void check(String name) {
    if (name.equals(broken)) {
      throw new NoClassDefFoundError(name);
    }
  }

  /** The classes of the jar, changed to call `check`; Spark's own are those of the program. */
  private static final class Changed extends URLClassLoader {
    private final String missing;

    Changed(URL jar, String missing) {
      super(new URL[] {jar}, Breaks.class.getClassLoader());
      this.missing = missing;
    }

    @Override
    protected Class<?> findClass(String name) throws ClassNotFoundException {
      if (name.equals(missing)) {
        throw new ClassNotFoundException(name);
      }
      try (InputStream code = findResource(name.replace('.', '/') + ".class").openStream()) {
        ClassReader reader = new ClassReader(code.readAllBytes());
        ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        reader.accept(calling(writer, name), 0);
        byte[] changed = writer.toByteArray();
        return defineClass(name, changed, 0, changed.length);
      } catch (java.io.IOException fault) {
        throw new ClassNotFoundException(name, fault);
      }
    }
  }

  private static ClassVisitor calling(ClassVisitor to, String name) {
    return new ClassVisitor(Opcodes.ASM9, to) {
      @Override
      public MethodVisitor visitMethod(
          int access, String method, String kind, String signature, String[] thrown) {
        MethodVisitor plain = super.visitMethod(access, method, kind, signature, thrown);
        if (method.equals("<clinit>")) {
          return plain;
        }
        return new MethodVisitor(Opcodes.ASM9, plain) {
          @Override
          public void visitCode() {
            super.visitCode();
            super.visitLdcInsn(name);
            super.visitMethodInsn(
                Opcodes.INVOKESTATIC, "Breaks", "check", "(Ljava/lang/String;)V", false);
          }
        };
      }
    };
  }

  private static int nap(int number) throws InterruptedException {
    MOST.accumulateAndGet(RUNNING.incrementAndGet(), Math::max);
    try {
      Thread.sleep(40);
    } finally {
      RUNNING.decrementAndGet();
    }
    return number;
  }

  /** Two stages at once for one user; whether they ended in time. */
  private static boolean work(JavaSparkContext spark, long waitMs) throws Exception {
    CountDownLatch ended = new CountDownLatch(2);
    for (int job = 0; job < 2; job++) {
      Thread thread =
          new Thread(
              () -> {
                try {
                  spark.setLocalProperty("decima.user", "bob");
                  spark.parallelize(Collections.nCopies(TASKS, 1), TASKS).map(Breaks::nap).count();
                  ended.countDown();
                } catch (Throwable failed) {
                  // A job that fails runs no tasks beyond its cap.
                }
              });
      thread.setDaemon(true);
      thread.start();
    }
    return ended.await(waitMs, TimeUnit.MILLISECONDS);
  }

  private static JavaSparkContext session(ClassLoader loader, List<String> settings) {
    Thread.currentThread().setContextClassLoader(loader);
    SparkConf conf = new SparkConf().setAppName("breaks").setMaster("local[8]");
    conf.set("spark.plugins", "decima.spark.DecimaPlugin");
    conf.set("spark.decima.maxSlots.user.bob", "2");
    conf.set("spark.decima.lapse", "200ms");
    for (String setting : settings) {
      conf.set("spark.decima." + setting.split("=", 2)[0], setting.split("=", 2)[1]);
    }
    return new JavaSparkContext(conf);
  }

  private static List<String> classes(ClassLoader loader) throws Exception {
    List<String> names = new ArrayList<>();
    try (BufferedReader list =
        new BufferedReader(
            new InputStreamReader(loader.getResourceAsStream("decima/classes.txt")))) {
      list.lines().forEach(names::add);
    }
    return names;
  }

  private static List<String> threads() {
    List<String> names = new ArrayList<>();
    for (Thread one : Thread.getAllStackTraces().keySet()) {
      if (one.getName().contains("decima") && one.isAlive()) {
        names.add(one.getName());
      }
    }
    Collections.sort(names);
    return names;
  }

  @SuppressWarnings("deprecation")
  private static void kill(String name) {
    for (Thread one : Thread.getAllStackTraces().keySet()) {
      if (one.getName().equals(name)) {
        one.stop();
      }
    }
  }

  /** "PART MOST OUTCOME" for each part. */
  public static void main(String[] arguments) throws Exception {
    URL jar = new java.io.File(arguments[1]).toURI().toURL();
    List<String> settings = java.util.Arrays.asList(arguments).subList(2, arguments.length);
    List<String> parts = classes(new Changed(jar, ""));
    if (arguments[0].equals("thread")) {
      try (JavaSparkContext spark = session(new Changed(jar, ""), settings)) {
        work(spark, 20_000);
        parts = threads();
      }
    }
    parts.add(0, "none");
    for (String part : parts) {
      MOST.set(0);
      boolean isMissing = arguments[0].equals("missing");
      String outcome = "refused";
      JavaSparkContext spark = null;
      try {
        spark = session(new Changed(jar, isMissing ? part : ""), settings);
        outcome = work(spark, 20_000) && MOST.get() == 2 ? "" : "unhealthy";
        if (arguments[0].equals("broken")) {
          broken = part;
        } else if (arguments[0].equals("thread")) {
          kill(part);
          Thread.sleep(100);
        }
        outcome += work(spark, 4_000) ? "ended" : "held";
      } catch (Throwable refused) {
        // The application does not start.
      } finally {
        broken = "";
        if (spark != null) {
          spark.stop();
        }
      }
      System.out.println("part " + part.replace(' ', '_') + " " + MOST.get() + " " + outcome);
    }
    System.exit(0); // threads of broken sessions may hang
  }
}
