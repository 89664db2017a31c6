package decima.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/** For tests: writes lines to a log of bounded size; answers why it is refused, or null. */
public final class WriteLog {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      Map<?, ?> asked = MAPPER.readValue(line, Map.class);
      String reason = null;
      try {
        write(asked);
      } catch (IOException refused) {
        reason = refused.getMessage();
      }
      System.out.println(MAPPER.writeValueAsString(reason));
    }
  }

  private static void write(Map<?, ?> asked) throws IOException {
    LogFiles files =
        new LogFiles(
            (String) asked.get("path"),
            ((Number) asked.get("max_bytes")).longValue(),
            ((Number) asked.get("files")).intValue(),
            MAPPER.writeValueAsString(asked.get("header")));
    for (Object row : (List<?>) asked.get("rows")) {
      files.write(MAPPER.writeValueAsString(row));
    }
    files.close();
  }
}
