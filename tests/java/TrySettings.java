package decima.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** For tests: reads settings, a line of JSON each, and answers why they are refused; null: not. */
public final class TrySettings {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  @SuppressWarnings("unchecked")
  public static void main(String[] arguments) throws Exception {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String reason = null;
      try {
        new Settings((Map<String, String>) MAPPER.readValue(line, Map.class));
      } catch (IllegalArgumentException refused) {
        reason = refused.getMessage();
      }
      System.out.println(MAPPER.writeValueAsString(reason));
    }
  }
}
