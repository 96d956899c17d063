package interop;

import com.amazonaws.auth.AWSStaticCredentialsProvider;
import com.amazonaws.auth.BasicAWSCredentials;
import com.amazonaws.client.builder.AwsClientBuilder.EndpointConfiguration;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDB;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBClientBuilder;
import com.amazonaws.services.dynamodbv2.model.AttributeDefinition;
import com.amazonaws.services.dynamodbv2.model.AttributeValue;
import com.amazonaws.services.dynamodbv2.model.BillingMode;
import com.amazonaws.services.dynamodbv2.model.CreateTableRequest;
import com.amazonaws.services.dynamodbv2.model.GlobalSecondaryIndex;
import com.amazonaws.services.dynamodbv2.model.KeySchemaElement;
import com.amazonaws.services.dynamodbv2.model.KeyType;
import com.amazonaws.services.dynamodbv2.model.LocalSecondaryIndex;
import com.amazonaws.services.dynamodbv2.model.Projection;
import com.amazonaws.services.dynamodbv2.model.ProjectionType;
import com.amazonaws.services.dynamodbv2.model.ScalarAttributeType;
import com.amazonaws.services.dynamodbv2.model.ScanRequest;
import com.amazonaws.services.dynamodbv2.model.ScanResult;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.typesafe.config.Config;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Accesses the two tables in a session's settings directly: the plugin can neither create tables
 * nor list their items.
 *
 * <p>Guarantees: items are sorted by key. In an item, the key's attributes come first, the others
 * are sorted by name.
 */
final class Tables implements AutoCloseable {
    private final AmazonDynamoDB client;
    private final Config config;

    Tables(Config config) {
        this.config = config;
        Config journal = config.getConfig("dynamodb-journal");
        client = AmazonDynamoDBClientBuilder.standard()
                .withEndpointConfiguration(new EndpointConfiguration(journal.getString("endpoint"), "us-east-1"))
                .withCredentials(new AWSStaticCredentialsProvider(new BasicAWSCredentials(
                        journal.getString("aws-access-key-id"), journal.getString("aws-secret-access-key"))))
                .build();
    }

    @Override
    public void close() {
        client.shutdown();
    }

    void create() {
        client.createTable(new CreateTableRequest()
                .withTableName(journal())
                .withBillingMode(BillingMode.PAY_PER_REQUEST)
                .withAttributeDefinitions(text("par"), number("num"))
                .withKeySchema(key("par", "num"))
                // Only for `ids`; the plugin calls this the alphabetical variant.
                .withGlobalSecondaryIndexes(new GlobalSecondaryIndex()
                        .withIndexName(config.getString("dynamodb-read-journal.persistence-ids-index-name"))
                        .withKeySchema(key("num", "par"))
                        .withProjection(new Projection().withProjectionType(ProjectionType.KEYS_ONLY))));
        client.createTable(new CreateTableRequest()
                .withTableName(snapshot())
                .withBillingMode(BillingMode.PAY_PER_REQUEST)
                .withAttributeDefinitions(text("par"), number("seq"), number("ts"))
                .withKeySchema(key("par", "seq"))
                .withLocalSecondaryIndexes(new LocalSecondaryIndex()
                        .withIndexName("ts-idx")
                        .withKeySchema(key("par", "ts"))
                        .withProjection(new Projection().withProjectionType(ProjectionType.ALL))));
    }

    /** Every item of a table as DynamoDB JSON, {@code {"par":{"S":…},…}}. */
    List<ObjectNode> items(String which) {
        boolean journal = which.equals("journal");
        if (!journal && !which.equals("snapshot")) {
            throw Failure.invalid("table must be journal or snapshot, not " + which);
        }
        String sort = journal ? "num" : "seq";
        List<Map<String, AttributeValue>> all = new ArrayList<>();
        ScanRequest page = new ScanRequest(journal ? journal() : snapshot()).withConsistentRead(true);
        do {
            ScanResult result = client.scan(page);
            all.addAll(result.getItems());
            page.setExclusiveStartKey(result.getLastEvaluatedKey());
        } while (page.getExclusiveStartKey() != null);
        Comparator<Map<String, AttributeValue>> byPar = Comparator.comparing(
                item -> item.get("par").getS().getBytes(StandardCharsets.UTF_8), Arrays::compareUnsigned);
        all.sort(byPar.thenComparing(item -> new BigDecimal(item.get(sort).getN())));
        return all.stream().map(item -> json(item, sort)).toList();
    }

    /** Deletes one event without the plugin, as if its write had been lost. */
    void lose(String persistenceId, long sequenceNr) {
        client.deleteItem(journal(), eventKey(persistenceId, sequenceNr));
    }

    /** Puts an event with its key and these attributes. */
    void putEvent(String persistenceId, long sequenceNr, Map<String, AttributeValue> attributes) {
        Map<String, AttributeValue> item = eventKey(persistenceId, sequenceNr);
        item.putAll(attributes);
        client.putItem(journal(), item);
    }

    void putSnapshot(String persistenceId, long sequenceNr, Map<String, AttributeValue> attributes) {
        Map<String, AttributeValue> item = new TreeMap<>(attributes);
        item.put("par", new AttributeValue(partition(persistenceId)));
        item.put("seq", numeral(sequenceNr));
        client.putItem(snapshot(), item);
    }

    static AttributeValue numeral(long number) {
        return new AttributeValue().withN(Long.toString(number));
    }

    private Map<String, AttributeValue> eventKey(String persistenceId, long sequenceNr) {
        Map<String, AttributeValue> key = new TreeMap<>();
        key.put("par", new AttributeValue(partition(persistenceId) + "-" + sequenceNr / 100));
        key.put("num", numeral(sequenceNr % 100));
        return key;
    }

    private String partition(String persistenceId) {
        return config.getString("dynamodb-journal.journal-name") + "-P-" + persistenceId;
    }

    private static ObjectNode json(Map<String, AttributeValue> item, String sort) {
        Map<String, AttributeValue> rest = new TreeMap<>(item);
        ObjectNode json = Payloads.JSON.createObjectNode();
        for (String key : List.of("par", sort)) {
            json.set(key, json(rest.remove(key)));
        }
        rest.forEach((name, value) -> json.set(name, json(value)));
        return json;
    }

    /** Supports types that the plugin does not write, because other writers may. */
    private static ObjectNode json(AttributeValue value) {
        ObjectNode typed = Payloads.JSON.createObjectNode();
        if (value.getS() != null) {
            typed.put("S", value.getS());
        } else if (value.getN() != null) {
            typed.put("N", value.getN());
        } else if (value.getB() != null) {
            typed.put("B", bytes(value.getB()));
        } else if (value.getBOOL() != null) {
            typed.put("BOOL", value.getBOOL());
        } else if (value.getNULL() != null) {
            typed.put("NULL", value.getNULL());
        } else if (value.getM() != null) {
            ObjectNode map = typed.putObject("M");
            new TreeMap<>(value.getM()).forEach((name, inner) -> map.set(name, json(inner)));
        } else if (value.getL() != null) {
            ArrayNode list = typed.putArray("L");
            value.getL().forEach(inner -> list.add(json(inner)));
        } else if (value.getSS() != null) {
            value.getSS().stream().sorted().forEach(typed.putArray("SS")::add);
        } else if (value.getNS() != null) {
            value.getNS().stream().sorted().forEach(typed.putArray("NS")::add);
        } else {
            value.getBS().forEach(inner -> typed.withArray("BS").add(bytes(inner)));
        }
        return typed;
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    private String journal() {
        return config.getString("dynamodb-journal.journal-table");
    }

    private String snapshot() {
        return config.getString("dynamodb-snapshot-store.snapshot-table");
    }

    private static AttributeDefinition text(String name) {
        return new AttributeDefinition(name, ScalarAttributeType.S);
    }

    private static AttributeDefinition number(String name) {
        return new AttributeDefinition(name, ScalarAttributeType.N);
    }

    private static List<KeySchemaElement> key(String hash, String range) {
        return List.of(new KeySchemaElement(hash, KeyType.HASH), new KeySchemaElement(range, KeyType.RANGE));
    }
}
