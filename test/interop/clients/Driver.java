import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A driver of kafka-clients, of any version since 2.4; the line protocol is in README.md beside this file. */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final String CLOSED = "";

    private final String address;
    private final Map<String, Producer<String, String>> producers = new HashMap<>();
    private Consumer<String, String> consumer;
    private final Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
    private Set<TopicPartition> told = Set.of();
    private Producer<String, String> transactional;
    /** Records that the member was told of and that are in no committed transaction. */
    private final List<ConsumerRecord<String, String>> inbox = new ArrayList<>();
    private final Map<TopicPartition, Long> toldEnds = new HashMap<>();
    private int taken;

    private Driver(String address) {
        this.address = address;
    }

    private static void write(ObjectNode message) {
        OUT.println(message);
        OUT.flush();
    }

    private Properties common() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        properties.put("metadata.max.age.ms", "1000");
        properties.put("reconnect.backoff.max.ms", "500");
        return properties;
    }

    private static String text(JsonNode command, String name, String otherwise) {
        return command.hasNonNull(name) ? command.get(name).asText() : otherwise;
    }

    private Producer<String, String> producer(String codec, boolean idempotent) {
        return producers.computeIfAbsent(codec + " " + idempotent, key -> {
            Properties properties = common();
            properties.put("compression.type", codec);
            properties.put("enable.idempotence", String.valueOf(idempotent));
            properties.put("acks", "all");
            properties.put("linger.ms", "20");
            return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        });
    }

    private void produce(JsonNode command) throws Exception {
        send(producer(text(command, "codec", "none"), command.path("idempotent").asBoolean()), command);
    }

    private static void deliver(List<Future<RecordMetadata>> sent) throws Exception {
        for (Future<RecordMetadata> each : sent) {
            try {
                each.get();
            } catch (ExecutionException error) {
                throw error.getCause() instanceof Exception cause ? cause : error;
            }
        }
    }

    private void send(Producer<String, String> producer, JsonNode command) throws Exception {
        boolean nulls = command.path("nulls").asBoolean();
        String prefix = command.get("prefix").asText();
        int size = command.path("size").asInt();
        int partitions = command.path("partitions").asInt();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int n = 0; n < command.get("count").asInt(); n++) {
            String key = nulls && n % 10 == 9 ? null : prefix + "key " + n;
            StringBuilder value = new StringBuilder(prefix + n + " ");
            while (value.length() < size) {
                value.append(value.length() + 1 < size ? "=+" : "=");
            }
            String whole = nulls && n % 10 == 8 ? null : value.toString();
            Integer partition = partitions == 0 ? null : n % partitions;
            ProducerRecord<String, String> record =
                new ProducerRecord<>(command.get("topic").asText(), partition, key, whole);
            record.headers().add("n", String.valueOf(n).getBytes(StandardCharsets.UTF_8));
            record.headers().add("from", prefix.getBytes(StandardCharsets.UTF_8));
            sent.add(producer.send(record));
        }
        deliver(sent);
    }

    private void init(JsonNode command) {
        Properties properties = common();
        properties.put("transactional.id", command.get("transactionalId").asText());
        properties.put("transaction.timeout.ms", command.get("timeoutMs").asText());
        properties.put("linger.ms", "20");
        transactional = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        transactional.initTransactions();
    }

    private void transform(JsonNode command) throws Exception {
        while (inbox.size() < command.get("count").asInt()) {
            poll();
        }
        taken = inbox.size();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> record : inbox) {
            String value = record.value().toUpperCase(Locale.ROOT);
            sent.add(transactional.send(new ProducerRecord<>(
                command.get("topic").asText(), record.partition(), record.key(), value, record.headers())));
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
        }
        deliver(sent);
        transactional.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
    }

    private void end(boolean commit) {
        while (true) {
            try {
                if (commit) {
                    transactional.commitTransaction();
                } else {
                    transactional.abortTransaction();
                }
                break;
            } catch (TimeoutException error) {
                // It is for the application to try again.
            }
        }
        if (commit) {
            inbox.subList(0, taken).clear();
        }
        taken = 0;
    }

    private void join(JsonNode command) throws Exception {
        String protocol = command.get("protocol").asText();
        Properties properties = common();
        properties.put("group.id", command.get("group").asText());
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("isolation.level", text(command, "isolation", "read_uncommitted"));
        if (command.hasNonNull("instanceId")) {
            properties.put("group.instance.id", command.get("instanceId").asText());
        }
        if (protocol.equals("consumer")) {
            properties.put("group.protocol", "consumer");
        } else {
            properties.put("session.timeout.ms", command.get("sessionTimeoutMs").asText());
            properties.put("heartbeat.interval.ms", "250");
            String assignor = protocol.equals("cooperative") ? "CooperativeStickyAssignor" : "RangeAssignor";
            properties.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
        }
        KafkaConsumer<String, String> made =
            new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
        if (!command.hasNonNull("pattern")) {
            List<String> topics = new ArrayList<>();
            command.get("topics").forEach(topic -> topics.add(topic.asText()));
            made.subscribe(topics);
        } else if (protocol.equals("consumer")) {
            // Resolved by the broker. Old versions have no such class.
            Class<?> kind = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
            Object pattern = kind.getConstructor(String.class).newInstance(command.get("pattern").asText());
            KafkaConsumer.class.getMethod("subscribe", kind).invoke(made, pattern);
        } else {
            made.subscribe(Pattern.compile(command.get("pattern").asText()));
        }
        consumer = made;
        told = Set.of();
        next.clear();
        inbox.clear();
        toldEnds.clear();
    }

    /** Lets the member live for a moment. */
    private void poll() {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(20))) {
            ObjectNode message = JSON.createObjectNode().put("event", "record");
            message.put("topic", record.topic()).put("partition", record.partition());
            message.put("offset", record.offset()).put("key", record.key()).put("value", record.value());
            ObjectNode headers = message.putObject("headers");
            for (Header header : record.headers()) {
                headers.put(header.key(), new String(header.value(), StandardCharsets.UTF_8));
            }
            write(message);
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            // Records that come again, after a rebalance, move no position back.
            next.merge(partition, new OffsetAndMetadata(record.offset() + 1),
                (before, now) -> before.offset() > now.offset() ? before : now);
            // Of a record that comes again, after a rebalance, only the first counts.
            if (record.offset() >= toldEnds.getOrDefault(partition, 0L)) {
                toldEnds.put(partition, record.offset() + 1);
                inbox.add(record);
            }
        }
        Set<TopicPartition> held = consumer.assignment();
        if (!held.equals(told)) {
            told = new HashSet<>(held);
            // Within a rebalance it may hold none for a moment.
            if (!told.isEmpty()) next.keySet().retainAll(told);
            ObjectNode message = JSON.createObjectNode().put("event", "assignment");
            ArrayNode partitions = message.putArray("partitions");
            told.forEach(partition -> partitions.add(partition.toString()));
            write(message);
        }
    }

    private void commit() {
        while (true) {
            for (int turns = 0; turns < 1_500 && !next.isEmpty() && consumer.assignment().isEmpty(); turns++) poll();
            try {
                consumer.commitSync(next);
                return;
            } catch (RebalanceInProgressException error) {
                // It is for the application to let the rebalance end, and to try again.
                poll();
            }
        }
    }

    private ObjectNode committed(JsonNode command) {
        Set<TopicPartition> wanted = new HashSet<>(consumer.assignment());
        Set<String> topics = new HashSet<>();
        command.get("topics").forEach(topic -> topics.add(topic.asText()));
        wanted.removeIf(partition -> !topics.contains(partition.topic()));
        ObjectNode result = JSON.createObjectNode();
        consumer.committed(wanted).forEach((partition, at) ->
            result.put(partition.toString(), at == null ? -1 : at.offset()));
        return result;
    }

    private ObjectNode answer(JsonNode command) throws Exception {
        switch (command.get("cmd").asText()) {
            case "produce" -> produce(command);
            case "join" -> join(command);
            case "commit" -> commit();
            case "committed" -> {
                return committed(command);
            }
            case "leave" -> {
                consumer.close();
                consumer = null;
            }
            case "init" -> init(command);
            case "begin" -> transactional.beginTransaction();
            case "send" -> send(transactional, command);
            case "transform" -> transform(command);
            case "end" -> end(command.get("commit").asBoolean());
            default -> throw new IllegalArgumentException("no such command");
        }
        return JSON.createObjectNode();
    }

    private static String version() throws IOException {
        Properties properties = new Properties();
        try (InputStream in = Driver.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            properties.load(in);
        }
        return properties.getProperty("version");
    }

    private void ready() throws IOException {
        String version = version();
        ObjectNode message = JSON.createObjectNode().put("event", "ready");
        message.put("client", "kafka-clients " + version);
        ArrayNode codecs = message.putArray("codecs");
        List.of("none", "gzip", "snappy", "lz4", "zstd").forEach(codecs::add);
        ArrayNode protocols = message.putArray("protocols").add("classic").add("cooperative");
        ArrayNode features = message.putArray("features").add("idempotent").add("transactions").add("static");
        features.add("regex").add("regex-later");
        if (Integer.parseInt(version.split("[.]")[0]) >= 4) {
            protocols.add("consumer");
            features.add("static-consumer").add("transactions-consumer");
        }
        write(message);
    }

    private void serve() throws Exception {
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                    lines.add(line);
                }
            } catch (IOException error) {
                error.printStackTrace();
            }
            lines.add(CLOSED);
        });
        reader.setDaemon(true);
        reader.start();
        ready();
        while (true) {
            String line = consumer == null ? lines.take() : lines.poll();
            if (line == null) {
                try {
                    poll();
                } catch (RuntimeException error) {
                    write(JSON.createObjectNode().put("event", "error").put("message", error.toString()));
                }
                continue;
            }
            if (line.equals(CLOSED)) {
                Runtime.getRuntime().halt(0);
            }
            JsonNode command = JSON.readTree(line);
            ObjectNode reply = JSON.createObjectNode().put("reply", command.get("id").asInt());
            try {
                reply.set("result", answer(command));
            } catch (Exception error) {
                StringBuilder story = new StringBuilder(error.toString());
                for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
                    story.append("\nCaused by ").append(cause);
                }
                reply.put("error", story.toString());
            }
            write(reply);
        }
    }

    public static void main(String[] args) throws Exception {
        new Driver(args[0]).serve();
    }
}
