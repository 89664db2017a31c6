package decima.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;

/** What Python reads and writes, by the library that Spark ships. */
final class Json {
  static final ObjectMapper MAPPER = new ObjectMapper();

  static String text(Object value) throws JsonProcessingException {
    return MAPPER.writeValueAsString(value);
  }
}
