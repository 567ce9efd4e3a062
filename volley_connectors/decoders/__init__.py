"""The file formats that Volley itself decodes. Each module is imported when its format is first used."""
