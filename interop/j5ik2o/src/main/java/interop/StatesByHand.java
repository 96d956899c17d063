package interop;

import akka.serialization.Serialization;
import akka.serialization.Serializer;
import akka.serialization.Serializers;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HashMap;
import java.util.Map;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;

/**
 * Writes states as the plugin's modules do, for fixtures if those modules are missing. The items
 * are built here; the core's own serializers still produce the bytes.
 *
 * <p>Relies on: the plugin's default settings, and our reading of its sources. None of this has
 * been observed with the plugin itself.
 */
final class StatesByHand {
    private static final int SHARDS = 64;

    private final Tables tables;
    private final Serialization serialization;
    /** Added to a revision when it is stored: the module for the second SDK adds one. */
    private final long more;

    StatesByHand(Tables tables, Serialization serialization, String clientVersion) {
        this.tables = tables;
        this.serialization = serialization;
        more = clientVersion.equals("v2") ? 1 : 0;
    }

    void put(String id, long revision, Object value, String tag) {
        Serializer serializer = serialization.findSerializerFor(value);
        Map<String, AttributeValue> item = key(id);
        item.put("persistence-id", AttributeValue.fromS(id));
        item.put("revision-nr", number(revision + more));
        item.put("payload", AttributeValue.fromB(SdkBytes.fromByteArray(serializer.toBinary(value))));
        item.put("serializer-id", number(serializer.identifier()));
        item.put("ordering", number(System.currentTimeMillis()));
        String manifest = Serializers.manifestFor(serializer, value);
        if (!manifest.isEmpty()) {
            item.put("serializer-manifest", AttributeValue.fromS(manifest));
        }
        if (!tag.isEmpty()) {
            item.put("tags", AttributeValue.fromS(tag));
        }
        tables.put("state", item);
    }

    void delete(String id) {
        tables.delete("state", key(id));
    }

    /** Responds as {@code state-get} does. */
    ObjectNode get(String id) {
        ObjectNode answer = Payloads.JSON.createObjectNode().put("revision", 0).putNull("state");
        for (ObjectNode item : tables.items("state", null)) {
            if (!item.at("/skey/S").textValue().equals(id)) {
                continue;
            }
            try {
                Object value = serialization
                        .deserialize(
                                item.at("/payload/B").binaryValue(),
                                item.at("/serializer-id/N").asInt(),
                                item.at("/serializer-manifest/S").asText())
                        .get();
                answer.put("revision", item.at("/revision-nr/N").asLong());
                Payloads.write(answer.putObject("state"), value, serialization);
            } catch (IOException e) {
                throw new Failure("failed", e);
            }
        }
        return answer;
    }

    /** Partition key: the id's prefix and a shard. Sort key: the whole id. */
    private static Map<String, AttributeValue> key(String id) {
        String prefix = id.contains("-") ? id.split("-")[0] + "-" : "";
        String reversed = new StringBuilder(id).reverse().toString();
        BigInteger shard;
        try {
            shard = new BigInteger(MessageDigest.getInstance("MD5").digest(reversed.getBytes(StandardCharsets.UTF_8)))
                    .abs()
                    .mod(BigInteger.valueOf(SHARDS))
                    .add(BigInteger.ONE);
        } catch (NoSuchAlgorithmException e) {
            throw new Failure("failed", e);
        }
        Map<String, AttributeValue> key = new HashMap<>();
        key.put("pkey", AttributeValue.fromS(prefix + "%040d".formatted(shard)));
        key.put("skey", AttributeValue.fromS(id));
        return key;
    }

    private static AttributeValue number(long number) {
        return AttributeValue.fromN(Long.toString(number));
    }
}
