package interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.protobuf.StringValue;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.pekko.actor.ActorPath;
import org.apache.pekko.actor.ActorPaths;
import org.apache.pekko.persistence.AtLeastOnceDelivery.AtLeastOnceDeliverySnapshot;
import org.apache.pekko.persistence.AtLeastOnceDelivery.UnconfirmedDelivery;
import org.apache.pekko.persistence.journal.Tagged;
import org.apache.pekko.serialization.Serialization;
import org.apache.pekko.serialization.Serializer;
import org.apache.pekko.serialization.Serializers;
import org.apache.pekko.util.ByteString;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Converts events and snapshots between the JSON of the protocol and Java objects.
 *
 * <p>Guarantees: {@link #write} returns a payload exactly as {@link #read} accepted it.
 */
final class Payloads {
    static final ObjectMapper JSON = new ObjectMapper();

    private Payloads() {}

    /** Reads {@code {"type": …, "value": …}}; interop/pekko/README.md lists the types. */
    static Object read(JsonNode payload) {
        JsonNode value = Failure.required(payload, "value");
        String type = Failure.text(payload, "type");
        try {
            return switch (type) {
                case "string" -> Failure.text(payload, "value");
                case "bytes" -> JSON.treeToValue(value, byte[].class);
                case "bytestring" -> ByteString.fromArray(JSON.treeToValue(value, byte[].class));
                case "long" -> Failure.number(payload, "value");
                case "int" -> Math.toIntExact(Failure.number(payload, "value"));
                case "boolean" -> JSON.treeToValue(value, boolean.class);
                case "json" -> JSON.treeToValue(value, Events.Json.class);
                case "cbor" -> JSON.treeToValue(value, Events.Cbor.class);
                case "versioned" -> JSON.treeToValue(value, Events.Versioned.class);
                case "java" -> new Events.Java(Failure.text(payload, "value"));
                case "custom" -> new Events.Custom(Failure.text(payload, "value"));
                case "protobuf" -> StringValue.of(Failure.text(payload, "value"));
                case "optional" -> Optional.of(Failure.text(payload, "value"));
                case "tagged" -> new Tagged(Failure.text(value, "event"), tags(value));
                case "delivery" -> delivery(value);
                default -> throw Failure.invalid("unknown payload type: " + type);
            };
        } catch (IOException | ArithmeticException e) {
            throw Failure.invalid("invalid value of type " + type + ": " + e.getMessage());
        }
    }

    /** Adds a payload's class, type and value, and its serializer and manifest in this session. */
    static ObjectNode write(ObjectNode to, Object payload, Serialization serialization) {
        Serializer serializer = serialization.findSerializerFor(payload);
        to.put("serializer", serializer.identifier());
        to.put("manifest", Serializers.manifestFor(serializer, payload));
        to.put("class", payload.getClass().getName());
        if (payload instanceof String text) {
            return to.put("type", "string").put("value", text);
        } else if (payload instanceof byte[] bytes) {
            return to.put("type", "bytes").put("value", bytes);
        } else if (payload instanceof ByteString bytes) {
            return to.put("type", "bytestring").put("value", bytes.toArray());
        } else if (payload instanceof Long number) {
            return to.put("type", "long").put("value", number);
        } else if (payload instanceof Integer number) {
            return to.put("type", "int").put("value", number);
        } else if (payload instanceof Boolean truth) {
            return to.put("type", "boolean").put("value", truth);
        } else if (payload instanceof Events.Versioned event) {
            return to.put("type", "versioned").set("value", JSON.valueToTree(event));
        } else if (payload instanceof Events.Json event) {
            return to.put("type", "json").set("value", JSON.valueToTree(event));
        } else if (payload instanceof Events.Cbor event) {
            return to.put("type", "cbor").set("value", JSON.valueToTree(event));
        } else if (payload instanceof Events.Java event) {
            return to.put("type", "java").put("value", event.text);
        } else if (payload instanceof Events.Custom event) {
            return to.put("type", "custom").put("value", event.text);
        } else if (payload instanceof StringValue message) {
            return to.put("type", "protobuf").put("value", message.getValue());
        } else if (payload instanceof Optional<?> some) {
            return to.put("type", "optional").put("value", (String) some.orElse(null));
        } else if (payload instanceof Tagged tagged) {
            return to.put("type", "tagged").set("value", tagged(tagged));
        } else if (payload instanceof AtLeastOnceDeliverySnapshot snapshot) {
            return to.put("type", "delivery").set("value", delivery(snapshot));
        }
        return to.put("type", "other").put("value", payload.toString());
    }

    private static Set<String> tags(JsonNode value) {
        Set<String> tags = new TreeSet<>();
        Failure.required(value, "tags").forEach(tag -> tags.add(tag.textValue()));
        return tags;
    }

    private static ObjectNode tagged(Tagged tagged) {
        ObjectNode value = JSON.createObjectNode().put("event", (String) tagged.payload());
        new TreeSet<>(CollectionConverters.asJava(tagged.tags())).forEach(value.withArray("tags")::add);
        return value;
    }

    private static AtLeastOnceDeliverySnapshot delivery(JsonNode value) {
        ActorPath to = ActorPaths.fromString(Failure.text(value, "destination"));
        UnconfirmedDelivery one =
                new UnconfirmedDelivery(Failure.number(value, "delivery"), to, Failure.text(value, "message"));
        return new AtLeastOnceDeliverySnapshot(
                Failure.number(value, "current"),
                CollectionConverters.asScala(List.of(one)).toList());
    }

    private static ObjectNode delivery(AtLeastOnceDeliverySnapshot snapshot) {
        UnconfirmedDelivery one = snapshot.unconfirmedDeliveries().head();
        return JSON.createObjectNode()
                .put("current", snapshot.currentDeliveryId())
                .put("delivery", one.deliveryId())
                .put("destination", one.destination().toSerializationFormat())
                .put("message", (String) one.message());
    }
}
