package interop;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.typesafe.config.Config;
import java.math.BigDecimal;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.AttributeDefinition;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;
import software.amazon.awssdk.services.dynamodb.model.CreateTableRequest;
import software.amazon.awssdk.services.dynamodb.model.GlobalSecondaryIndex;
import software.amazon.awssdk.services.dynamodb.model.KeySchemaElement;
import software.amazon.awssdk.services.dynamodb.model.KeyType;
import software.amazon.awssdk.services.dynamodb.model.Projection;
import software.amazon.awssdk.services.dynamodb.model.ProjectionType;
import software.amazon.awssdk.services.dynamodb.model.ProvisionedThroughput;
import software.amazon.awssdk.services.dynamodb.model.ScalarAttributeType;

/**
 * Accesses the three tables in a session's settings directly: the plugin can neither create tables
 * nor list their items.
 *
 * <p>Guarantees: tables follow the plugin's own descriptions, with the names of tables, indexes and
 * attributes from the settings. Items are sorted by key. In an item, the key's attributes come
 * first, the others are sorted by name.
 */
final class Tables implements AutoCloseable {
    static final List<String> ALL = List.of("journal", "snapshot", "state");
    private static final ProvisionedThroughput THROUGHPUT =
            ProvisionedThroughput.builder().readCapacityUnits(10L).writeCapacityUnits(10L).build();

    private final DynamoDbClient client;
    private final Config config;

    /** An attribute of a key. */
    private record Attribute(String name, ScalarAttributeType type) {}

    Tables(Config config) {
        this.config = config;
        Config settings = config.getConfig("j5ik2o.dynamo-db-defaults.dynamo-db-client");
        client = DynamoDbClient.builder()
                .endpointOverride(URI.create(settings.getString("endpoint")))
                .region(Region.of(settings.getString("region")))
                .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create(
                        settings.getString("access-key-id"), settings.getString("secret-access-key"))))
                .build();
    }

    @Override
    public void close() {
        client.close();
    }

    /**
     * Creates the tables in {@code which}, and a state table for each prefix, for a resolver that
     * names tables after prefixes.
     *
     * @param legacy whether to create the old formats: the journal until 1.0.22, the snapshots
     *     until 1.8, the states until 1.13
     */
    void create(List<String> which, List<String> prefixes, boolean legacy) {
        for (String table : which) {
            switch (table) {
                case "journal" -> journal(legacy);
                case "snapshot" -> snapshot(legacy);
                case "state" -> state(name("state"), legacy);
                default -> throw noSuchTable(table);
            }
        }
        prefixes.forEach(prefix -> state(prefix, legacy));
    }

    private void journal(boolean legacy) {
        Attribute number = number("journal", "sequence-nr");
        List<Attribute> key = List.of(text("journal", "partition-key"), legacy ? number : text("journal", "sort-key"));
        List<Attribute> rows = List.of(text("journal", "persistence-id"), number);
        List<GlobalSecondaryIndex> indexes =
                new ArrayList<>(List.of(index(setting("journal", "get-journal-rows-index-name"), rows)));
        List<Attribute> all = new ArrayList<>(key);
        all.addAll(rows);
        if (legacy) {
            // For queries that the plugin has since removed.
            Attribute tags = text("journal", "tags");
            indexes.add(index("TagsIndex", List.of(tags)));
            all.add(tags);
        }
        // Without the stream in the plugin's own description: the plugin does not read it, and it
        // slows DynamoDB Local down with every event, including those of deleted tables.
        client.createTable(table(name("journal"), key, all)
                .globalSecondaryIndexes(indexes)
                .build());
    }

    private void snapshot(boolean legacy) {
        List<Attribute> rows = List.of(text("snapshot", "persistence-id"), number("snapshot", "sequence-nr"));
        if (legacy) {
            client.createTable(table(name("snapshot"), rows, rows).build());
            return;
        }
        List<Attribute> key = List.of(text("snapshot", "partition-key"), text("snapshot", "sort-key"));
        List<Attribute> all = Stream.of(key, rows).flatMap(List::stream).toList();
        client.createTable(table(name("snapshot"), key, all)
                .globalSecondaryIndexes(index(setting("snapshot", "get-snapshot-rows-index-name"), rows))
                .build());
    }

    private void state(String name, boolean legacy) {
        List<Attribute> key = new ArrayList<>(List.of(text("state", "partition-key")));
        if (!legacy) {
            key.add(text("state", "sort-key"));
        }
        client.createTable(table(name, key, key).build());
    }

    private static CreateTableRequest.Builder table(String name, List<Attribute> key, List<Attribute> all) {
        List<AttributeDefinition> attributes = all.stream()
                .distinct()
                .map(it -> AttributeDefinition.builder().attributeName(it.name()).attributeType(it.type()).build())
                .toList();
        return CreateTableRequest.builder()
                .tableName(name)
                .attributeDefinitions(attributes)
                .keySchema(schema(key))
                .provisionedThroughput(THROUGHPUT);
    }

    private static GlobalSecondaryIndex index(String name, List<Attribute> key) {
        return GlobalSecondaryIndex.builder()
                .indexName(name)
                .keySchema(schema(key))
                .projection(Projection.builder().projectionType(ProjectionType.ALL).build())
                .provisionedThroughput(THROUGHPUT)
                .build();
    }

    private static List<KeySchemaElement> schema(List<Attribute> key) {
        List<KeySchemaElement> schema = new ArrayList<>();
        for (Attribute it : key) {
            KeyType type = schema.isEmpty() ? KeyType.HASH : KeyType.RANGE;
            schema.add(KeySchemaElement.builder().attributeName(it.name()).keyType(type).build());
        }
        return schema;
    }

    /**
     * Every item of a table as DynamoDB JSON, {@code {"pkey":{"S":…},…}}. Reads the key's
     * attributes from the table's description.
     *
     * @param prefix names the state table of a resolver that names tables after prefixes; or null
     */
    List<ObjectNode> items(String which, String prefix) {
        if (!ALL.contains(which)) {
            throw noSuchTable(which);
        }
        String name = prefix == null ? name(which) : prefix;
        List<String> key = client.describeTable(it -> it.tableName(name)).table().keySchema().stream()
                .map(KeySchemaElement::attributeName)
                .toList();
        List<Map<String, AttributeValue>> all = new ArrayList<>();
        client.scanPaginator(it -> it.tableName(name).consistentRead(true)).items().forEach(all::add);
        Comparator<Map<String, AttributeValue>> order = (one, other) -> 0;
        for (String attribute : key) {
            order = order.thenComparing(item -> item.get(attribute), Tables::compareKeys);
        }
        all.sort(order);
        return all.stream().map(item -> json(item, key)).toList();
    }

    /** Puts an item; overwrites an existing one. */
    void put(String which, Map<String, AttributeValue> item) {
        client.putItem(it -> it.tableName(name(which)).item(item));
    }

    void delete(String which, Map<String, AttributeValue> key) {
        client.deleteItem(it -> it.tableName(name(which)).key(key));
    }

    private static int compareKeys(AttributeValue one, AttributeValue other) {
        if (one.n() != null) {
            return new BigDecimal(one.n()).compareTo(new BigDecimal(other.n()));
        }
        return Arrays.compareUnsigned(
                one.s().getBytes(StandardCharsets.UTF_8), other.s().getBytes(StandardCharsets.UTF_8));
    }

    private static ObjectNode json(Map<String, AttributeValue> item, List<String> key) {
        Map<String, AttributeValue> rest = new TreeMap<>(item);
        ObjectNode json = Payloads.JSON.createObjectNode();
        key.forEach(name -> json.set(name, json(rest.remove(name))));
        rest.forEach((name, value) -> json.set(name, json(value)));
        return json;
    }

    /** Supports types that the plugin does not write, because other writers may. */
    private static ObjectNode json(AttributeValue value) {
        ObjectNode typed = Payloads.JSON.createObjectNode();
        switch (value.type()) {
            case S -> typed.put("S", value.s());
            case N -> typed.put("N", value.n());
            case B -> typed.put("B", value.b().asByteArray());
            case BOOL -> typed.put("BOOL", value.bool());
            case NUL -> typed.put("NULL", value.nul());
            case M -> {
                ObjectNode map = typed.putObject("M");
                new TreeMap<>(value.m()).forEach((name, inner) -> map.set(name, json(inner)));
            }
            case L -> {
                ArrayNode list = typed.putArray("L");
                value.l().forEach(inner -> list.add(json(inner)));
            }
            case SS -> value.ss().stream().sorted().forEach(typed.putArray("SS")::add);
            case NS -> value.ns().stream().sorted().forEach(typed.putArray("NS")::add);
            case BS -> value.bs().stream().map(SdkBytes::asByteArray).forEach(typed.putArray("BS")::add);
            default -> throw new Failure("failed", "attribute of an unknown type: " + value, null);
        }
        return typed;
    }

    private String name(String which) {
        return setting(which, "table-name");
    }

    private String setting(String which, String name) {
        return config.getString("j5ik2o.dynamo-db-" + which + "." + name);
    }

    private Attribute text(String which, String column) {
        return new Attribute(setting(which, "columns-def." + column + "-column-name"), ScalarAttributeType.S);
    }

    private Attribute number(String which, String column) {
        return new Attribute(setting(which, "columns-def." + column + "-column-name"), ScalarAttributeType.N);
    }

    private static Failure noSuchTable(String name) {
        return Failure.invalid("table must be journal, snapshot or state, not " + name);
    }
}
