package decima.spark;

import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/**
 * A connection to the coordinator, once both ends have proved that they have the secret, which is
 * never sent (decima/spark/coordinator/messages.py).
 */
final class CoordinatorSocket implements Closeable {
  /** a coordinator that is silent for so long hangs: it sends a beat each second */
  private static final int SILENCE_MS = 5_000;
  private static final int CONNECT_MS = 3_000;
  private static final int MAX_BYTES = 1 << 16;

  private final Socket end;

  /** @throws IOException there is no coordinator, or it does not have the secret. */
  CoordinatorSocket(Settings settings) throws IOException {
    int colon = settings.coordinator.lastIndexOf(':');
    String host = settings.coordinator.substring(0, colon);
    int port = Integer.parseInt(settings.coordinator.substring(colon + 1));
    InetAddress address = InetAddress.getByName(host);
    if (!address.isLoopbackAddress() && !settings.isCoordinatorTls) {
      throw new IOException(host + " is another machine: spark.decima.coordinatorTls=true is needed");
    }
    end = connected(settings, host, new InetSocketAddress(address, port));
    try {
      end.setTcpNoDelay(true);
      end.setSoTimeout(SILENCE_MS);
      prove(Files.readAllBytes(Paths.get(settings.coordinatorSecretFile)));
    } catch (IOException | RuntimeException fault) {
      close();
      throw fault;
    }
  }

  private static Socket connected(Settings settings, String host, InetSocketAddress address)
      throws IOException {
    Socket plain = new Socket();
    plain.connect(address, CONNECT_MS);
    if (!settings.isCoordinatorTls) {
      return plain;
    }
    SSLSocketFactory factory = (SSLSocketFactory) SSLSocketFactory.getDefault();
    SSLSocket secure = (SSLSocket) factory.createSocket(plain, host, address.getPort(), true);
    SSLParameters parameters = secure.getSSLParameters();
    parameters.setEndpointIdentificationAlgorithm("HTTPS");
    secure.setSSLParameters(parameters);
    secure.setSoTimeout(SILENCE_MS);
    secure.startHandshake();
    return secure;
  }

  private void prove(byte[] file) throws IOException {
    byte[] secret = new String(file, StandardCharsets.UTF_8).trim().getBytes(StandardCharsets.UTF_8);
    String first = text(receive(), "nonce");
    String second = Frames.newSecret();
    Map<String, Object> hello = new LinkedHashMap<>();
    hello.put("nonce", second);
    hello.put("proof", proof(secret, "driver", first, second));
    send(hello);
    byte[] given = text(receive(), "proof").getBytes(StandardCharsets.UTF_8);
    byte[] right = proof(secret, "coordinator", first, second).getBytes(StandardCharsets.UTF_8);
    if (!MessageDigest.isEqual(given, right)) {
      throw new IOException("it does not have the secret");
    }
  }

  private static String text(Map<?, ?> message, String key) throws IOException {
    Object value = message == null ? null : message.get(key);
    if (!(value instanceof String)) {
      throw new IOException("it hung up: is the secret the same?");
    }
    return (String) value;
  }

  private static String proof(byte[] secret, String who, String first, String second)
      throws IOException {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret, "HmacSHA256"));
      return Frames.hex(mac.doFinal((who + first + second).getBytes(StandardCharsets.UTF_8)));
    } catch (GeneralSecurityException | IllegalArgumentException fault) {
      throw new IOException("no proof can be made: " + fault.getMessage(), fault);
    }
  }

  /** The next message; null at the end of the connection. */
  Map<?, ?> receive() throws IOException {
    return Frames.read(end.getInputStream(), MAX_BYTES);
  }

  synchronized void send(Map<?, ?> message) throws IOException {
    Frames.write(end.getOutputStream(), message);
  }

  @Override
  public void close() {
    Frames.close(end);
  }
}
