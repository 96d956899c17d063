package interop;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import org.apache.pekko.persistence.journal.EventAdapter;
import org.apache.pekko.persistence.journal.EventSeq;
import org.apache.pekko.serialization.SerializerWithStringManifest;
import org.apache.pekko.serialization.jackson.JacksonMigration;

/**
 * Our event classes, one for each way in which an application can store its own class. Their names
 * are stored as manifests: renaming one makes the fixtures unreadable.
 */
final class Events {
    private Events() {}

    /** Jackson JSON, serializer 31. */
    public static class Json {
        public String text;
        public long number;
    }

    /** Jackson CBOR, serializer 33. */
    public static class Cbor {
        public String text;
        public long number;
    }

    /**
     * A class that changed over time. Jackson appends its version to the serializer's manifest. The
     * event adapter has its own manifest, in another attribute.
     */
    public static class Versioned extends Json {}

    public static class SecondVersion extends JacksonMigration {
        @Override
        public int currentVersion() {
            return 2;
        }

        @Override
        public JsonNode transform(int fromVersion, JsonNode json) {
            return json;
        }
    }

    public static class VersionedAdapter implements EventAdapter {
        @Override
        public String manifest(Object event) {
            return "adapted";
        }

        @Override
        public Object toJournal(Object event) {
            return event;
        }

        @Override
        public EventSeq fromJournal(Object event, String manifest) {
            if (!manifest.equals("adapted")) {
                throw new IllegalArgumentException("unexpected manifest: " + manifest);
            }
            return EventSeq.single(event);
        }
    }

    /** Java serialization, serializer 1. */
    public static final class Java implements Serializable {
        private static final long serialVersionUID = 1;
        public final String text;

        Java(String text) {
            this.text = text;
        }
    }

    /** An application's own serializer, with a manifest that is not a class name. */
    public static final class Custom {
        public final String text;

        Custom(String text) {
            this.text = text;
        }
    }

    public static final class CustomSerializer extends SerializerWithStringManifest {
        @Override
        public int identifier() {
            return 70001;
        }

        @Override
        public String manifest(Object event) {
            return "custom/1";
        }

        @Override
        public byte[] toBinary(Object event) {
            return ((Custom) event).text.getBytes(StandardCharsets.UTF_16BE);
        }

        @Override
        public Object fromBinary(byte[] bytes, String manifest) {
            if (!manifest.equals("custom/1")) {
                throw new IllegalArgumentException("unexpected manifest: " + manifest);
            }
            return new Custom(new String(bytes, StandardCharsets.UTF_16BE));
        }
    }
}
