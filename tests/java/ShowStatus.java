package decima.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import decima.policy.LiveJobs;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** For tests: reads reports of a session and limits, and writes the status after each report. */
public final class ShowStatus {
  private static final ObjectMapper MAPPER = new ObjectMapper().setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE);

  @SuppressWarnings("unchecked")
  public static void main(String[] arguments) throws Exception {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      Map<?, ?> asked = MAPPER.readValue(line, Map.class);
      Status status = new Status();
      LiveJobs live = new LiveJobs();
      List<Object> found = new ArrayList<>();
      for (Object one : (List<?>) asked.get("reports")) {
        Report report = MAPPER.convertValue(one, Report.class);
        live.update(report);
        status.note(report);
        status.notePlan(1);
        Map<String, Object> out = new LinkedHashMap<>();
        status.fill(out, live, (Map<String, Integer>) asked.get("limits"));
        found.add(out);
      }
      System.out.println(MAPPER.writeValueAsString(found));
    }
  }
}
