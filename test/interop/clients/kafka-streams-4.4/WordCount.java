import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts the words of a topic's lines into another one, by the streams protocol of groups (KIP-1071): a repartition topic, a
 * store with its changelog, and a second subtopology without state. Arguments: bootstrap servers, application id, state
 * directory, port to name as the endpoint, and any settings as key=value. Prints each state it gets into; ends with its input.
 */
public final class WordCount {
  public static void main(String[] args) throws Exception {
    Properties settings = new Properties();
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
    settings.put(StreamsConfig.APPLICATION_SERVER_CONFIG, "127.0.0.1:" + args[3]);
    settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
    settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
    settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    for (int i = 4; i < args.length; i++) {
      int at = args[i].indexOf('=');
      settings.put(args[i].substring(0, at), args[i].substring(at + 1));
    }

    StreamsBuilder builder = new StreamsBuilder();
    builder.<String, String>stream("lines")
        .flatMapValues(line -> Arrays.asList(line.split(" ")))
        .groupBy((key, word) -> word, Grouped.as("words"))
        .count(Materialized.as("counts"))
        .toStream()
        .mapValues(count -> Long.toString(count))
        .to("counts", Produced.with(Serdes.String(), Serdes.String()));
    builder.<String, String>stream("plain").mapValues(value -> value.toUpperCase()).to("upper");

    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    streams.setStateListener((now, before) -> {
      System.out.println("state " + now);
      System.out.flush();
    });
    streams.start();
    while (System.in.read() >= 0) {}
    streams.close(Duration.ofSeconds(30));
    System.out.println("closed");
  }
}
