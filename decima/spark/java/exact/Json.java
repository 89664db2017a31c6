package decima.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;

/** What Python reads and writes, by the library that Spark ships. */
final class Json {
  static final ObjectMapper MAPPER = new ObjectMapper();

  /** The same as one who reads the text gets: no arrays, and all maps are by names. */
  static Map plain(Map json) {
    return (Map) MAPPER.convertValue(json, Map.class);
  }

  static String text(Object value) throws JsonProcessingException {
    return MAPPER.writeValueAsString(value);
  }
}
