// Generates the codecs of src/protocol/generated from the schemas.
