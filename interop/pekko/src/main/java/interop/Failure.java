package interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** Why a request failed: a kind for callers to match on, and fields to add to the response. */
final class Failure extends RuntimeException {
    private static final long serialVersionUID = 1;
    final String kind;
    final transient ObjectNode facts = Payloads.JSON.createObjectNode();

    Failure(String kind, String message, Throwable cause) {
        super(message, cause);
        this.kind = kind;
    }

    Failure(String kind, Throwable cause) {
        this(kind, chain(cause), cause);
    }

    /** Includes all causes: the plugin's own exception does not contain DynamoDB's message. */
    static String chain(Throwable cause) {
        StringBuilder message = new StringBuilder(String.valueOf(cause));
        for (Throwable next = cause.getCause(); next != null; next = next.getCause()) {
            message.append("; caused by ").append(next);
        }
        return message.toString();
    }

    static Failure invalid(String message) {
        return new Failure("invalid", message, null);
    }

    static JsonNode required(JsonNode request, String name) {
        JsonNode value = request.get(name);
        if (value == null || value.isNull()) {
            throw invalid("the request has no " + name);
        }
        return value;
    }

    static String text(JsonNode request, String name) {
        JsonNode value = required(request, name);
        if (!value.isTextual()) {
            throw invalid(name + " must be a string");
        }
        return value.textValue();
    }

    static long number(JsonNode request, String name) {
        JsonNode value = required(request, name);
        if (!value.canConvertToLong() || !value.isIntegralNumber()) {
            throw invalid(name + " must be a 64-bit integer");
        }
        return value.longValue();
    }

    static long number(JsonNode request, String name, long otherwise) {
        return request.has(name) ? number(request, name) : otherwise;
    }
}
