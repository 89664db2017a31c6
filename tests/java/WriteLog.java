package decima.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/**
 * For tests: writes lines to a log of bounded size; answers why it is refused, or null. With "more",
 * writes to the log before, which then stays open, and answers whether it still is.
 */
public final class WriteLog {
  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static LogFiles files;

  public static void main(String[] arguments) throws Exception {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      Map<?, ?> asked = MAPPER.readValue(line, Map.class);
      Object answer = null;
      try {
        if (asked.get("more") == null) {
          open(asked);
        }
        write(asked);
        answer = asked.get("more") == null ? null : files.isOpen();
      } catch (IOException refused) {
        answer = refused.getMessage();
      }
      System.out.println(MAPPER.writeValueAsString(answer));
    }
  }

  private static void open(Map<?, ?> asked) throws IOException {
    if (files != null) {
      files.close();
    }
    files =
        new LogFiles(
            (String) asked.get("path"),
            ((Number) asked.get("max_bytes")).longValue(),
            ((Number) asked.get("files")).intValue(),
            MAPPER.writeValueAsString(asked.get("header")));
  }

  private static void write(Map<?, ?> asked) throws IOException {
    for (Object row : (List<?>) asked.get("rows")) {
      files.write(MAPPER.writeValueAsString(row));
    }
  }
}
