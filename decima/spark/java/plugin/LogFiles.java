package decima.spark;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/**
 * Lines in a few files of bounded size, for their owner alone: names of jobs may be the text of
 * queries. PATH has the newest lines; a full one becomes PATH.1, what was PATH.1 becomes PATH.2, and
 * the oldest goes. Each begins with the same header.
 */
final class LogFiles {
  private static final Set<OpenOption> APPEND =
      new HashSet<>(
          Arrays.<OpenOption>asList(
              StandardOpenOption.CREATE,
              StandardOpenOption.WRITE,
              StandardOpenOption.APPEND,
              LinkOption.NOFOLLOW_LINKS));

  private final Path path;
  private final long maxBytes;
  private final int files;
  private final byte[] header;
  private volatile OutputStream out;
  private long size = 0;
  /** identity of the open file, if the system has one: another may have its path by now */
  private Object key = null;

  /**
   * Begin a file; one that is there is put aside.
   *
   * @throws IOException one line: it cannot be written, or its path is a link.
   */
  LogFiles(String path, long maxBytes, int files, String header) throws IOException {
    this.path = Paths.get(path);
    this.maxBytes = maxBytes;
    this.files = files;
    this.header = line(header);
    try {
      open();
      if (size > 0) {
        turn();
      }
    } catch (IOException error) {
      throw new IOException("decision log " + path + ": " + words(error), error);
    }
    write(header);
  }

  /**
   * Look whether a file can be there, without making one.
   *
   * @throws IOException one line: there is no such folder, or a folder or link has its path.
   */
  static void check(String path) throws IOException {
    Path file = Paths.get(path).toAbsolutePath();
    String fault = null;
    if (Files.isDirectory(file) || Files.isSymbolicLink(file)) {
      fault = "is a folder or a link";
    } else if (!Files.isDirectory(file.getParent())) {
      fault = "no such folder";
    }
    if (fault != null) {
      throw new IOException("decision log " + path + ": " + fault);
    }
  }

  private static String words(IOException error) {
    if (error instanceof NoSuchFileException) {
      return "no such folder";
    }
    if (error instanceof FileAlreadyExistsException) {
      return "is in the way";
    }
    String reason = error.getMessage();
    return reason == null ? error.toString() : reason.split("\n")[0];
  }

  private static byte[] line(String text) {
    return (text + "\n").getBytes(StandardCharsets.UTF_8);
  }

  private void open() throws IOException {
    boolean isPosix = FileSystems.getDefault().supportedFileAttributeViews().contains("posix");
    FileAttribute<?>[] owner =
        isPosix
            ? new FileAttribute<?>[] {
              PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"))
            }
            : new FileAttribute<?>[0];
    out = Channels.newOutputStream(Files.newByteChannel(path, APPEND, owner));
    if (isPosix && Files.isRegularFile(path)) {
      Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rw-------"));
    }
    size = Files.size(path);
    key = keyNow();
  }

  private Object keyNow() throws IOException {
    return Files.readAttributes(path, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS).fileKey();
  }

  /** Begin anew if the file was removed or moved. */
  private void follow() throws IOException {
    Object now = null;
    try {
      now = keyNow();
    } catch (NoSuchFileException gone) {
      // opened again below, if its folder is there
    }
    if (now == null ? Files.notExists(path) : !now.equals(key)) {
      out.close();
      open();
      if (size == 0) {
        put(header);
      }
    }
  }

  /** Put the files aside, each one place further, and begin a new one. */
  private void turn() throws IOException {
    out.close();
    for (int number = files - 1; number >= 1; number--) {
      Path from = number == 1 ? path : aside(number - 1);
      if (Files.exists(from, LinkOption.NOFOLLOW_LINKS)) {
        Files.move(from, aside(number), StandardCopyOption.REPLACE_EXISTING);
      }
    }
    open();
  }

  private Path aside(int number) {
    return path.resolveSibling(path.getFileName() + "." + number);
  }

  private void put(byte[] text) throws IOException {
    out.write(text);
    size += text.length;
  }

  /** One line more. A full disk ends the log, and nothing else. */
  synchronized void write(String text) {
    if (out == null) {
      return;
    }
    byte[] next = line(text);
    try {
      follow();
      if (size + next.length > maxBytes && size > header.length) {
        turn();
        put(header);
      }
      put(next);
    } catch (IOException error) {
      DecimaPlugin.LOG.warn("decision log {} ends here: {}", path, words(error));
      close();
    }
  }

  /** Whether lines are still written. */
  boolean isOpen() {
    return out != null;
  }

  /** Close the file; later lines are lost. */
  synchronized void close() {
    try {
      if (out != null) {
        out.close();
      }
    } catch (IOException error) {
      DecimaPlugin.LOG.debug("closing", error);
    }
    out = null;
  }
}
