"""Sources of conversations: ShareGPT files and synthetic personas."""
