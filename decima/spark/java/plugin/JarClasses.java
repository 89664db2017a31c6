package decima.spark;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * The classes of the jar. They are loaded at once: the loader that `--jars` fills may be closed while
 * the application runs (a Thrift server's first session closes it), and the jar may be deleted.
 */
final class JarClasses {
  /** their names, a line each (`decima/spark/jar.py`) */
  private static final String LIST = "/decima/classes.txt";

  private JarClasses() {}

  /**
   * Load and initialize all of them; may be called twice.
   *
   * @throws IOException the jar has no list of its classes.
   * @throws LinkageError a class is missing or damaged, or this Spark lacks one that it extends.
   */
  static void load() throws IOException {
    try (InputStream list = JarClasses.class.getResourceAsStream(LIST)) {
      if (list == null) {
        throw new IOException("the jar has no " + LIST);
      }
      new BufferedReader(new InputStreamReader(list, StandardCharsets.UTF_8))
          .lines()
          .forEach(JarClasses::load);
    }
  }

  private static void load(String name) {
    try {
      Class.forName(name, true, JarClasses.class.getClassLoader());
    } catch (ClassNotFoundException missing) {
      throw new NoClassDefFoundError(name);
    }
  }
}
