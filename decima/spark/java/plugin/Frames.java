package decima.spark;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Map;

/** Messages to and from a worker: the length in four bytes, big endian, and so many bytes of JSON. */
final class Frames {
  private static final int MAX_BYTES = 1 << 28;

  private Frames() {}

  /** The next message; null when the other end is gone. */
  static Map<?, ?> read(InputStream from) throws IOException {
    return read(from, MAX_BYTES);
  }

  /** Likewise, of at most so many bytes. */
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

  static String hex(byte[] bytes) {
    StringBuilder text = new StringBuilder();
    for (byte value : bytes) {
      text.append(String.format("%02x", value));
    }
    return text.toString();
  }

  static void write(OutputStream to, Map<?, ?> message) throws IOException {
    byte[] data = Json.MAPPER.writeValueAsBytes(message);
    DataOutputStream out = new DataOutputStream(new java.io.BufferedOutputStream(to));
    out.writeInt(data.length);
    out.write(data);
    out.flush();
  }
}
