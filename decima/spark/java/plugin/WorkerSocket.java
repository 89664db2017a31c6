package decima.spark;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Where a worker connects over loopback: it must know a secret. Every process of this machine may
 * connect: each has a short time for a short hello, and none blocks another.
 */
final class WorkerSocket implements Closeable {
  static final int HELLO_BYTES = 1_024;
  private static final long HELLO_MS = 5_000;
  private static final int BACKLOG = 64;
  /** so many may be about to say hello; beyond it the oldest is turned away */
  private static final int MOST_CONNECTIONS = 64;
  private static final int SECRET_BYTES = 32;

  final String secret = newSecret();
  private final ServerSocket server;
  private final ConcurrentLinkedDeque<Socket> connections = new ConcurrentLinkedDeque<>();
  private final LinkedBlockingQueue<Socket> known = new LinkedBlockingQueue<>();

  /** @throws IOException there is no free port. */
  WorkerSocket() throws IOException {
    server = new ServerSocket(0, BACKLOG, InetAddress.getLoopbackAddress());
    start("decima-socket", this::accept);
  }

  private static String newSecret() {
    byte[] random = new byte[SECRET_BYTES];
    new SecureRandom().nextBytes(random);
    return Frames.hex(random);
  }

  private static void start(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.start();
  }

  int port() {
    return server.getLocalPort();
  }

  /** The next connection with the secret; null if there is none in time. */
  Socket poll(long timeoutMs) throws InterruptedException {
    return known.poll(timeoutMs, TimeUnit.MILLISECONDS);
  }

  private void accept() {
    while (!server.isClosed()) {
      try {
        Socket connection = server.accept();
        connections.add(connection);
        for (int more = connections.size() - MOST_CONNECTIONS; more > 0; more--) {
          turnAway(connections.peek());
        }
        start("decima-hello", () -> hear(connection));
      } catch (IOException | RuntimeException | OutOfMemoryError fault) {
        DriverSide.LOG.debug("a connection", fault);
      }
    }
  }

  private void hear(Socket connection) {
    try {
      Object given = readHello(connection).get("secret");
      byte[] text = String.valueOf(given).getBytes(StandardCharsets.UTF_8);
      if (MessageDigest.isEqual(text, secret.getBytes(StandardCharsets.UTF_8))) {
        connection.setTcpNoDelay(true);
        connection.setSoTimeout(0);
        connections.remove(connection);
        known.add(connection);
        return;
      }
    } catch (IOException | RuntimeException unknown) {
      DriverSide.LOG.debug("an unknown process connected", unknown);
    }
    turnAway(connection);
  }

  private void turnAway(Socket connection) {
    connections.remove(connection);
    try {
      connection.close();
    } catch (IOException error) {
      DriverSide.LOG.debug("closing", error);
    }
  }

  /** Read the first message: a frame (`Frames`) of a bounded length, within one time for all of it. */
  private static Map<?, ?> readHello(Socket connection) throws IOException {
    long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(HELLO_MS);
    int length = ByteBuffer.wrap(read(connection, Integer.BYTES, endNs)).getInt();
    if (length < 0 || length > HELLO_BYTES) {
      throw new IOException("a hello of " + length + " bytes; at most " + HELLO_BYTES);
    }
    return Json.MAPPER.readValue(read(connection, length, endNs), Map.class);
  }

  private static byte[] read(Socket connection, int count, long endNs) throws IOException {
    InputStream in = connection.getInputStream();
    byte[] found = new byte[count];
    int have = 0;
    while (have < count) {
      long leftMs = TimeUnit.NANOSECONDS.toMillis(endNs - System.nanoTime());
      if (leftMs <= 0) {
        throw new SocketTimeoutException("no hello within " + HELLO_MS + " ms");
      }
      connection.setSoTimeout((int) leftMs);
      int got = in.read(found, have, count - have);
      if (got < 0) {
        throw new IOException("it went without a hello");
      }
      have += got;
    }
    return found;
  }

  /** Close all connections. */
  @Override
  public void close() throws IOException {
    server.close();
    for (Iterator<Socket> all = connections.iterator(); all.hasNext(); ) {
      turnAway(all.next());
    }
    for (Socket late = known.poll(); late != null; late = known.poll()) {
      turnAway(late);
    }
  }
}
