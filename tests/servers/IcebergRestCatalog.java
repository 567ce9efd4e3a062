package org.apache.iceberg.rest;

import jakarta.servlet.DispatcherType;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpFilter;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.eclipse.jetty.ee10.servlet.FilterHolder;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/**
 * The REST catalog of Iceberg's own tests, on this machine only: its server listens on every address.
 *
 * <p>Arguments: the port, a credential `id:secret` or nothing, and properties of the catalog, `name=value`. In Iceberg's
 * package because the classes that it starts are visible there only.
 */
public final class IcebergRestCatalog {
  public static void main(String[] arguments) throws Exception {
    Map<String, String> properties = new HashMap<>();
    properties.put("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog");
    properties.put("jdbc.schema-version", "V1");
    for (String property : Arrays.asList(arguments).subList(2, arguments.length)) {
      String[] pair = property.split("=", 2);
      properties.put(pair[0], pair[1]);
    }
    Catalog catalog = CatalogUtil.buildIcebergCatalog("rest", properties, new Configuration());
    RESTServerCatalogAdapter adapter =
        new RESTServerCatalogAdapter(new RESTCatalogServer.CatalogContext(catalog, properties));
    ServletContextHandler handler = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    handler.addServlet(new ServletHolder(new RESTCatalogServlet(adapter)), "/*");
    if (!arguments[1].isEmpty()) {
      FilterHolder guard = new FilterHolder(new Guard(arguments[1]));
      handler.addFilter(guard, "/*", EnumSet.of(DispatcherType.REQUEST));
    }
    Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    server.setHandler(handler);
    server.start();
    server.join();
  }

  /** Gives a token for the one credential, and lets nobody through without it. Iceberg's adapter accepts anybody. */
  private static final class Guard extends HttpFilter {
    private static final long serialVersionUID = 1L;
    private static final String TOKEN = "token-of-the-test-catalog";
    private final List<String> expected;

    Guard(String credential) {
      String[] parts = credential.split(":", 2);
      expected = List.of("client_id=" + encoded(parts[0]), "client_secret=" + encoded(parts[1]));
    }

    @Override
    protected void doFilter(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
        throws IOException, ServletException {
      if (request.getRequestURI().endsWith("/oauth/tokens")) {
        String form = new String(request.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        boolean known = Arrays.asList(form.split("&")).containsAll(expected);
        String token =
            "{\"access_token\":\"%s\",\"token_type\":\"bearer\",\"expires_in\":3600,"
                + "\"issued_token_type\":\"urn:ietf:params:oauth:token-type:access_token\"}";
        answer(
            response,
            known ? 200 : 401,
            known ? token.formatted(TOKEN) : "{\"error\":\"invalid_client\",\"error_description\":\"bad credential\"}");
      } else if (("Bearer " + TOKEN).equals(request.getHeader("Authorization"))) {
        chain.doFilter(request, response);
      } else {
        answer(
            response,
            401,
            "{\"error\":{\"message\":\"Not authorized\",\"type\":\"NotAuthorizedException\",\"code\":401}}");
      }
    }

    private static void answer(HttpServletResponse response, int status, String json) throws IOException {
      response.setStatus(status);
      response.setContentType("application/json");
      response.getWriter().write(json);
    }

    private static String encoded(String text) {
      return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }
  }
}
