package decima.spark;

import java.io.Closeable;
import java.io.IOException;
import java.io.FilterInputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
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
  /** connections without a hello yet; beyond it the oldest is closed */
  private static final int MOST_CONNECTIONS = 64;

  final String secret = Frames.newSecret();
  private final ServerSocket server;
  private final ConcurrentLinkedDeque<Socket> connections = new ConcurrentLinkedDeque<>();
  private final LinkedBlockingQueue<Socket> known = new LinkedBlockingQueue<>();

  /** @throws IOException there is no free port. */
  WorkerSocket() throws IOException {
    server = new ServerSocket(0, BACKLOG, InetAddress.getLoopbackAddress());
    start("decima-socket", this::accept);
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
        DecimaPlugin.LOG.debug("a connection", fault);
      }
    }
  }

  private void hear(Socket connection) {
    try {
      Map<?, ?> hello = Frames.read(new Hello(connection), HELLO_BYTES);
      Object given = hello == null ? null : hello.get("secret");
      byte[] text = String.valueOf(given).getBytes(StandardCharsets.UTF_8);
      if (MessageDigest.isEqual(text, secret.getBytes(StandardCharsets.UTF_8))) {
        connection.setTcpNoDelay(true);
        connection.setSoTimeout(0);
        connections.remove(connection);
        known.add(connection);
        return;
      }
    } catch (IOException | RuntimeException unknown) {
      DecimaPlugin.LOG.debug("an unknown process connected", unknown);
    }
    turnAway(connection);
  }

  private void turnAway(Socket connection) {
    connections.remove(connection);
    Frames.close(connection);
  }

  /** What a connection sends, within one time for all of it. */
  private static final class Hello extends FilterInputStream {
    private final Socket connection;
    private final long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(HELLO_MS);

    Hello(Socket connection) throws IOException {
      super(connection.getInputStream());
      this.connection = connection;
    }

    @Override
    public int read() throws IOException {
      byte[] one = new byte[1];
      return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] target, int first, int count) throws IOException {
      long leftMs = TimeUnit.NANOSECONDS.toMillis(endNs - System.nanoTime());
      if (leftMs <= 0) {
        throw new SocketTimeoutException("no hello within " + HELLO_MS + " ms");
      }
      connection.setSoTimeout((int) leftMs);
      return super.read(target, first, count);
    }
  }

  /** Close all connections. */
  @Override
  public void close() throws IOException {
    server.close();
    connections.forEach(this::turnAway);
    for (Socket late = known.poll(); late != null; late = known.poll()) {
      turnAway(late);
    }
  }
}
