//! The one place where the server reads randomness.

/// Sixteen random bytes as two numbers: the key of the table's hash, so that nobody can choose keys that collide.
pub(crate) fn hash_seed() -> Result<[u64; 2], getrandom::Error> {
    Ok([getrandom::u64()?, getrandom::u64()?])
}

/// A server id: 32 hexadecimal digits.
pub(crate) fn server_id() -> Result<String, getrandom::Error> {
    Ok(format!("{:016x}{:016x}", getrandom::u64()?, getrandom::u64()?))
}
