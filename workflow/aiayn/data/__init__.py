"""From public archives to fairseq's data: `sources` fetches, `text` cleans, segments and binarizes.

May import specs, records and what stands beside them. The stages never import each other.
"""
