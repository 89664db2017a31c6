package decima.spark;

import java.io.IOException;
import java.net.Socket;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/** Questions to a Python that is ready, and its answers; each answer has the number of its question. */
final class WorkerLink {
  private static final String NUMBER = "number";
  private static final String GONE = "the Python that decides is gone";

  private final Socket end;
  private final AtomicLong asked = new AtomicLong();
  private final Map<Long, CompletableFuture<Map<?, ?>>> open = new ConcurrentHashMap<>();
  private volatile boolean isOver = false;

  WorkerLink(Socket end) {
    this.end = end;
  }

  /** Ask, and do not wait. */
  CompletableFuture<Map<?, ?>> ask(String kind, Map<String, ?> question) {
    CompletableFuture<Map<?, ?>> answer = new CompletableFuture<>();
    long number = asked.incrementAndGet();
    Map<String, Object> message = new LinkedHashMap<>(question);
    message.put("ask", kind);
    message.put(NUMBER, number);
    open.put(number, answer);
    try {
      if (isOver) {
        throw new IOException(GONE);
      }
      synchronized (this) {
        Frames.write(end.getOutputStream(), message);
      }
    } catch (IOException gone) {
      open.remove(number);
      answer.completeExceptionally(gone);
    }
    return answer;
  }

  /** Take answers until the connection ends. */
  void run() throws IOException {
    try {
      for (Map<?, ?> answer = read(); answer != null; answer = read()) {
        long number = ((Number) answer.get(NUMBER)).longValue();
        CompletableFuture<Map<?, ?>> waits = open.remove(number);
        if (waits != null) {
          waits.complete(answer);
        }
      }
    } finally {
      isOver = true;
      IOException why = new IOException(GONE);
      for (CompletableFuture<Map<?, ?>> waits : open.values()) {
        waits.completeExceptionally(why);
      }
    }
  }

  private Map<?, ?> read() throws IOException {
    return Frames.read(end.getInputStream(), Frames.MAX_BYTES);
  }

  /** Hang up: `run` then ends. */
  void close() {
    Frames.close(end);
  }
}
