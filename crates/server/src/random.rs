//! The one place where the server reads randomness.

/// Sixteen random bytes as two numbers: the key of the table's hash, so that nobody can choose keys that collide.
pub(crate) fn hash_seed() -> Result<[u64; 2], getrandom::Error> {
    Ok([getrandom::u64()?, getrandom::u64()?])
}

/// Sixteen random bytes, from which a server id is made.
pub(crate) fn bytes() -> Result<[u8; 16], getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}
