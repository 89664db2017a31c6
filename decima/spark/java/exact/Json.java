package decima.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.util.Map;

/** JSON, by the library that Spark ships, and the values that the jar shares with Python. */
public final class Json {
  public static final ObjectMapper MAPPER = new ObjectMapper();
  /** `shared` of decima/spark/jar.py */
  private static final Map<?, ?> SHARED = shared();

  private Json() {}

  static String text(Object value) throws JsonProcessingException {
    return MAPPER.writeValueAsString(value);
  }

  private static Map<?, ?> shared() {
    try (InputStream file = Json.class.getResourceAsStream("/decima/shared.json")) {
      if (file == null) {
        throw new IllegalStateException("the jar has no shared.json");
      }
      return MAPPER.readValue(file, Map.class);
    } catch (IOException error) {
      throw new IllegalStateException("the jar's shared.json: " + error.getMessage(), error);
    }
  }

  /** A value that Python declares. */
  @SuppressWarnings("unchecked")
  public static <T> T shared(String name) {
    return (T) SHARED.get(name);
  }
}
