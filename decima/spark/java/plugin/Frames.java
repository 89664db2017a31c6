package decima.spark;

import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.math.BigInteger;
import java.security.SecureRandom;
import java.util.Map;

/** Messages over a connection: the length in four bytes, big endian, and so many bytes of JSON. */
final class Frames {
  static final int MAX_BYTES = 1 << 28;
  private static final int SECRET_BYTES = 32;

  private Frames() {}

  /**
   * The next message; null at the end of the connection.
   *
   * @throws IOException it has more than `maxBytes`.
   */
  static Map<?, ?> read(InputStream from, int maxBytes) throws IOException {
    DataInputStream in = new DataInputStream(from);
    int length;
    try {
      length = in.readInt();
    } catch (EOFException gone) {
      return null;
    }
    if (length < 0 || length > maxBytes) {
      throw new IOException("a message of " + length + " bytes; at most " + maxBytes);
    }
    byte[] data = new byte[length];
    in.readFully(data);
    return Json.MAPPER.readValue(data, Map.class);
  }

  static void write(OutputStream to, Map<?, ?> message) throws IOException {
    byte[] data = Json.MAPPER.writeValueAsBytes(message);
    DataOutputStream out = new DataOutputStream(new BufferedOutputStream(to));
    out.writeInt(data.length);
    out.write(data);
    out.flush();
  }

  /** Close a connection, whatever becomes of it; null: nothing. */
  static void close(Closeable end) {
    try {
      if (end != null) {
        end.close();
      }
    } catch (IOException error) {
      DecimaPlugin.LOG.debug("closing", error);
    }
  }

  /** 32 bytes that no other can guess, in hexadecimal digits. */
  static String newSecret() {
    byte[] random = new byte[SECRET_BYTES];
    new SecureRandom().nextBytes(random);
    return hex(random);
  }

  /** The 64 hexadecimal digits of 32 bytes. */
  static String hex(byte[] bytes) {
    return String.format("%064x", new BigInteger(1, bytes));
  }
}
