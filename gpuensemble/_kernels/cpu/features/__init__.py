"""Lloyd's step over features on the CPU: `steps` one by one, `lloyd` many in a call, `batches` as a device does."""
