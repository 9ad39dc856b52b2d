"""Where a corpus comes from: generated, listed, or published files that are downloaded, verified and read."""
