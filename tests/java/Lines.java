package decima.spark;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** For tests: answers each line of JSON with another. */
public final class Lines {
  public static final ObjectMapper MAPPER =
      new ObjectMapper()
          .configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true)
          .setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE);

  /** The answer to one question. */
  public interface Answer {
    Object to(Map<String, Object> question) throws Exception;
  }

  @SuppressWarnings("unchecked")
  public static void answer(Answer answer) throws Exception {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      Object found = answer.to((Map<String, Object>) MAPPER.readValue(line, Map.class));
      System.out.println(MAPPER.writeValueAsString(found));
      System.out.flush();
    }
  }
}
